"""Reads passes out of a model in fixed forwards: a prefix in whole chunks, tails in groups over it."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import mlx.core as mx
from mlx import nn

from dicast_server.decisions.passes import Pass, Scores
from dicast_server.engine.groups import group_tails
from dicast_server.engine.head import Head
from dicast_server.engine.prefix import Prefix, SharedPrefix, empty_prefix, opaque_prefix
from dicast_server.engine.selftest import tails_agree
from dicast_server.engine.store import Chain, PrefixStore

FORWARD_TOKENS = 256
"""The most tokens, padding included, that one forward carries; never by load.

On a CPU of two cores 256 took a fifth less time than 128 for all workloads of the benchmarks.
"""

COPY_BYTES = 512 * 1024 * 1024
"""The most bytes that one layer's copies for the rows of a forward may take."""

Result_co = TypeVar("Result_co", covariant=True)
Result = TypeVar("Result")


class Rounds(Protocol[Result_co]):
    """What the engine sees of a decision: rounds of passes that want scores."""

    def next_round(self) -> Sequence[Pass]:
        """The passes to read next; empty when there are none."""

    def receive(self, index: int, scores: Scores) -> Result_co | None:
        """Take the scores of one pass; a result where they complete one."""


@dataclass(frozen=True, slots=True)
class Work(Generic[Result]):
    """One request for the engine: passes that share a prefix. `isolated` reads one pass a forward.

    `salt` sets the prefixes of this request apart in the store: whoever gives another one finds none of
    them.
    """

    prefix: tuple[int, ...]
    rounds: Rounds[Result]
    isolated: bool = False
    salt: bytes = b""

    def start(self, reader: Reader, tally: Tally) -> Generator[list[Result], None, None]:
        """The request's steps."""
        return reader.read(self, tally)


@dataclass(frozen=True, slots=True)
class Prewarming:
    """A request to read a prefix and to hold it in the store for `hold_s` seconds."""

    prefix: tuple[int, ...]
    salt: bytes
    hold_s: float

    def start(self, reader: Reader, tally: Tally) -> Generator[list[Kept], None, None]:
        """The request's steps."""
        return reader.prewarm(self, tally)


@dataclass(slots=True)
class Tally:
    """Tokens that a request's prompts hold, the shared prefix once; and forwards that they took.

    `cached_tokens` of them came out of the store.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    forwards: int = 0


@dataclass(frozen=True, slots=True)
class Kept:
    """Whether a prefix is in the store now; `reason` says why not, and is empty where it is."""

    reason: str = ""


class Reader:
    """Owns a model's forwards and the prefixes that are kept. Everything here runs on the engine thread."""

    def __init__(
        self,
        model: nn.Module,
        probe: Sequence[int],
        forward_tokens: int = FORWARD_TOKENS,
        store: PrefixStore | None = None,
        threads: int = 1,
    ) -> None:
        """Check the head's path and the views on `probe`, a few token ids of labels.

        `threads` are those of a CPU that run a forward.

        Raises:
            ValueError: tails give something else than full forwards, whichever way they are run.
        """
        self.forward_tokens = forward_tokens
        self.head = Head(model, probe, threads)
        ways = [empty_prefix(model), opaque_prefix(model)]
        agreeing = (way for way in ways if tails_agree(self.head, way, probe, forward_tokens))
        empty = next(agreeing, None)
        if empty is None:
            raise ValueError("tails over a prefix differ from full forwards")
        self._empty = empty
        self.store = store or PrefixStore(0, lambda: 0.0)

    @property
    def shares_forwards(self) -> bool:
        """Whether several tails can run in one forward."""
        return self._empty.shares_forwards

    def read(self, work: Work[Result], tally: Tally) -> Generator[list[Result], None, None]:
        """Run a request; yields after every forward with the results that the forward completed."""
        prefix: Prefix | None = None
        while passes := work.rounds.next_round():
            shared = [i for i, pass_ in enumerate(passes) if _continues(pass_, work.prefix)]
            if shared and prefix is None:
                prefix = yield from self._prefill(work.prefix, self.store.chain(work.salt), tally)
            if prefix is not None:
                yield from self._read_tails(work, prefix, passes, shared, tally)
            for index in range(len(passes)):
                if index not in shared:
                    # A template whose prompts do not begin alike: this one is its own tail.
                    yield from self._read_tails(work, self._empty, passes, [index], tally)

    def prewarm(self, work: Prewarming, tally: Tally) -> Generator[list[Kept], None, None]:
        """Read a prefix and hold it in the store; ends with what came of it."""
        chain = self.store.chain(work.salt)
        prefix: Prefix = yield from self._prefill(work.prefix, chain, tally)
        chain.hold(work.hold_s)
        if isinstance(prefix, SharedPrefix):
            yield [Kept(chain.reason)]
        else:
            yield [Kept("this model's caches cannot be kept between requests")]

    def _prefill(
        self, tokens: Sequence[int], chain: Chain, tally: Tally
    ) -> Generator[list[Result], None, Prefix]:
        prefix = self._empty
        tally.input_tokens += len(tokens)
        for start in range(0, len(tokens), self.forward_tokens):
            piece = tokens[start : start + self.forward_tokens]
            if not isinstance(prefix, SharedPrefix):
                prefix, _ = self._forward(prefix, piece, tally)
                yield []
            elif (chunk := chain.find(piece)) is not None:
                prefix = prefix.extended(chunk)
                tally.cached_tokens += len(piece)
            else:
                prefix, _ = self._forward(prefix, piece, tally)
                assert isinstance(prefix, SharedPrefix)
                chain.add(prefix.chunks[-1])
                yield []
        return prefix

    def _forward(self, prefix: Prefix, tokens: Sequence[int], tally: Tally) -> tuple[Prefix, mx.array]:
        """Read one row of tokens behind a prefix: the longer prefix, and what the head gave."""
        caches = prefix.caches(1)
        output = self.head.forward(mx.array([list(tokens)]), caches)
        tally.forwards += 1
        return prefix.after(caches, len(tokens)), output

    def _read_tails(
        self,
        work: Work[Result],
        prefix: Prefix,
        passes: Sequence[Pass],
        indices: Sequence[int],
        tally: Tally,
    ) -> Generator[list[Result], None, None]:
        # Passes that are alike are read once.
        alike: dict[Pass, list[int]] = {}
        for index in indices:
            alike.setdefault(passes[index], []).append(index)
        distinct = list(alike)
        tails = [pass_.tokens[prefix.length :] for pass_ in distinct]
        for group in self._groups(prefix, [len(tail) for tail in tails], work.isolated):
            first = tally.forwards
            last = yield from self._run([tails[place] for place in group], prefix, tally)
            scored = self.head.read(last, [distinct[place].labels for place in group])
            serials = tuple(range(first, tally.forwards))
            tally.input_tokens += sum(len(tails[place]) for place in group)
            yield [
                result
                for place, scores in zip(group, scored, strict=True)
                for index in alike[distinct[place]]
                if (result := work.rounds.receive(index, Scores(scores.values, scores.mass, serials)))
                is not None
            ]

    def _groups(self, prefix: Prefix, lengths: Sequence[int], isolated: bool) -> list[list[int]]:
        if isolated or not prefix.shares_forwards:
            return [[place] for place in range(len(lengths))]
        return group_tails(
            lengths,
            self.forward_tokens,
            lambda rows, width: rows * prefix.row_bytes(width) <= COPY_BYTES,
        )

    def _run(
        self, tails: Sequence[Sequence[int]], prefix: Prefix, tally: Tally
    ) -> Generator[list[Result], None, mx.array]:
        """Run tails side by side; returns what the head reads at each one's end, (rows, d).

        Shorter rows are padded on the right: causal attention and recurrence never let a later position
        reach an earlier one. A tail longer than a forward is alone: all but its last chunk become part of
        a prefix of its own, and it yields after each.
        """
        width = max(len(tail) for tail in tails)
        for start in range(0, width - self.forward_tokens, self.forward_tokens):
            piece = tails[0][start : start + self.forward_tokens]
            prefix, _ = self._forward(prefix, piece, tally)
            yield []
        read = (width - 1) // self.forward_tokens * self.forward_tokens
        rows = [[*tail[read:], *itertools.repeat(0, width - len(tail))] for tail in tails]
        output = self.head.forward(mx.array(rows), prefix.caches(len(rows)))
        tally.forwards += 1
        ends = mx.array([len(tail) - 1 - read for tail in tails])
        return output[mx.arange(len(tails)), ends]


def _continues(pass_: Pass, prefix: Sequence[int]) -> bool:
    """Whether a pass begins with the prefix and has at least one token more, to read at."""
    return len(pass_.tokens) > len(prefix) and pass_.tokens[: len(prefix)] == tuple(prefix)
