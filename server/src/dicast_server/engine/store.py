"""Keeps prefixes between requests: content-addressed, immutable, within a budget of bytes."""

from __future__ import annotations

import hashlib
import struct
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dicast_server.engine.prefix import Chunk


@dataclass(slots=True)
class _Node:
    """One chunk behind its parent. `held_until` is a time of the store's clock; 0 holds nothing."""

    key: bytes
    chunk: Chunk
    reader: int
    held_until: float = 0.0


@dataclass(frozen=True, slots=True)
class StoreCounters:
    """What the store holds and what it has done: bytes, and chunks found, missed, kept and evicted."""

    nbytes: int = 0
    hits: int = 0
    misses: int = 0
    kept: int = 0
    evicted: int = 0


class PrefixStore:
    """Chunks of prefixes, found by the tokens before and in them.

    A chunk's key is a hash of its parent's key and of its own token ids; the first parent is a salt.
    Whatever would change a bit of a chunk (weights, adapter, forward size) belongs into the salt, and so
    does whoever must not see that somebody else has sent the same text. Two prefixes with a common
    beginning share its whole chunks, and a prefix that grows finds all but its last, partial one.

    Evicted is what was used longest ago and is not held. A parent counts as used whenever its child is,
    so a child always goes first. Only the engine thread calls this.
    """

    def __init__(self, budget_bytes: int, clock: Callable[[], float]) -> None:
        """`clock` gives seconds; a budget of 0 keeps nothing."""
        self.budget_bytes = budget_bytes
        self._clock = clock
        # Least recently used first.
        self._nodes: OrderedDict[bytes, _Node] = OrderedDict()
        self._nbytes = self._hits = self._misses = self._kept = self._evicted = 0

    @property
    def counters(self) -> StoreCounters:
        """A snapshot."""
        return StoreCounters(self._nbytes, self._hits, self._misses, self._kept, self._evicted)

    def chain(self, salt: bytes, reader: int = 0) -> Chain:
        """A walk along a prefix, from its first token on; `reader` is the number of whoever reads it."""
        return Chain(self, salt, reader)

    def forget(self, reader: int) -> None:
        """Let go of all that a reader has kept, held or not."""
        for node in [node for node in self._nodes.values() if node.reader == reader]:
            self._drop(node)

    def get(self, key: bytes) -> _Node | None:
        """The node of a key."""
        node = self._nodes.get(key)
        if node is None:
            self._misses += 1
        else:
            self._hits += 1
        return node

    def holds(self, node: _Node) -> bool:
        """Whether a node has not been evicted."""
        return self._nodes.get(node.key) is node

    def put(self, key: bytes, chunk: Chunk, own: Sequence[_Node], reader: int) -> _Node | str:
        """Keep a chunk behind `own`, its chain, which makes no room for it. A text says why not."""
        if chunk.nbytes > self.budget_bytes:
            return f"one of its chunks takes {chunk.nbytes} bytes and the store has {self.budget_bytes}"
        now = self._clock()
        protected = {node.key for node in own}
        evictable = [n for n in self._nodes.values() if n.key not in protected and n.held_until <= now]
        least = self._nbytes - sum(node.chunk.nbytes for node in evictable)
        if least + chunk.nbytes > self.budget_bytes:
            return (
                f"the store's {self.budget_bytes} bytes are full: {least} are held by this state and by "
                "those that were prewarmed"
            )
        for node in evictable:
            if self._nbytes + chunk.nbytes <= self.budget_bytes:
                break
            self._drop(node)
            self._evicted += 1
        node = self._nodes[key] = _Node(key, chunk, reader)
        self._nbytes += chunk.nbytes
        self._kept += 1
        return node

    def _drop(self, node: _Node) -> None:
        del self._nodes[node.key]
        self._nbytes -= node.chunk.nbytes

    def touch(self, chain: Sequence[_Node]) -> None:
        """Count a chain as used now."""
        for node in reversed(chain):
            self._nodes.move_to_end(node.key)

    def hold(self, chain: Sequence[_Node], seconds: float) -> None:
        """Keep a chain from eviction for a while."""
        until = self._clock() + seconds
        for node in chain:
            node.held_until = max(node.held_until, until)


class Chain:
    """A prefix being read: finds its chunks while there are any, then keeps those that are computed.

    A chunk is kept as soon as it is there, so that requests which read the same state side by side share
    the work. `reason` says why a part of the prefix is not kept, and is empty while all of it is.
    """

    def __init__(self, store: PrefixStore, salt: bytes, reader: int) -> None:
        self._store = store
        self._reader = reader
        self._key = salt
        self._nodes: list[_Node] = []
        self.reason = ""

    def find(self, piece: Sequence[int]) -> Chunk | None:
        """Step over the next tokens of the prefix: their chunk, or None where it must be computed."""
        self._key = hashlib.sha256(self._key + struct.pack(f"<{len(piece)}I", *piece)).digest()
        node = None if self.reason else self._store.get(self._key)
        if node is None:
            return None
        self._step(node)
        return node.chunk

    def add(self, chunk: Chunk) -> None:
        """Keep the chunk that `find` did not find, where there is room."""
        if self.reason:
            return
        if self._nodes and not self._store.holds(self._nodes[-1]):
            self.reason = "its beginning was evicted while it was read"
            return
        put = self._store.put(self._key, chunk, self._nodes, self._reader)
        if isinstance(put, str):
            self.reason = put
        else:
            self._step(put)

    def hold(self, seconds: float) -> None:
        """Keep what is kept of the prefix from eviction for a while."""
        self._store.hold(self._nodes, seconds)

    def _step(self, node: _Node) -> None:
        self._nodes.append(node)
        self._store.touch([each for each in self._nodes if self._store.holds(each)])
