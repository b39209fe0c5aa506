"""Reads passes out of a model in fixed forwards: a prefix in whole chunks, tails in groups over it."""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeAlias, TypeVar

import mlx.core as mx
from mlx import nn

from dicast_server.decisions.passes import Pass, Scores
from dicast_server.engine.costs import Costs
from dicast_server.engine.footprint import Footprint
from dicast_server.engine.groups import group_tails
from dicast_server.engine.head import Head
from dicast_server.engine.prefix import Prefix, SharedPrefix, empty_prefix, opaque_prefix
from dicast_server.engine.selftest import tails_agree
from dicast_server.engine.store import Chain, PrefixStore

FORWARD_TOKENS = 320
"""The most tokens, padding included, that one forward carries; never by load.

Measured on two cores of a CPU: from 128 to 320 the requests of the benchmarks take 20 to 40 % less time,
beyond it hardly less.
"""

COPY_BYTES = 512 * 1024 * 1024
"""The most bytes that one layer's copies for the rows of a forward may take, unless told otherwise."""

Result_co = TypeVar("Result_co", covariant=True)
Result = TypeVar("Result")


Steps: TypeAlias = Generator[Sequence[Result], None, Sequence[Result]]
"""A request being run, one forward a step: what each forward gave, the last one by its return."""


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
    them. `nbytes` is what it takes in memory while it is read.
    """

    prefix: tuple[int, ...]
    rounds: Rounds[Result]
    isolated: bool = False
    salt: bytes = b""
    nbytes: int = 0

    def start(self, reader: Reader, tally: Tally) -> Steps[Result]:
        """The request's steps."""
        return reader.read(self, tally)


@dataclass(frozen=True, slots=True)
class Prewarming:
    """A request to read a prefix and to hold it in the store for `hold_s` seconds."""

    prefix: tuple[int, ...]
    salt: bytes
    hold_s: float
    nbytes: int = 0

    def start(self, reader: Reader, tally: Tally) -> Steps[Kept]:
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


@dataclass(slots=True)
class _Progress(Generic[Result]):
    """A request on its way: its tally, and what its last forward gave."""

    tally: Tally
    results: list[Result] = field(default_factory=list)
    ran: bool = False

    def turn(self) -> Generator[Sequence[Result], None, None]:
        """Let others have their forward, if this request has had one; called before whatever needs one.

        Not after each: the last one's results would wait for everybody's turn to hear that it was the last.
        """
        if self.ran:
            self.ran = False
            yield self.take()

    def count(self) -> None:
        """A forward has run."""
        self.ran = True
        self.tally.forwards += 1

    def take(self) -> list[Result]:
        """What was found since it was last taken."""
        taken, self.results = self.results, []
        return taken


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
        *,
        threads: int = 1,
        costs: Costs | None = None,
        copy_bytes: int = COPY_BYTES,
    ) -> None:
        """Check the head's path and the views on `probe`, a few token ids of labels.

        `threads` are those of a CPU that run a forward; tails are grouped by `costs`, by default those that
        come with dicast for the device. The copies that a layer makes of a prefix for the rows of a forward
        take at most `copy_bytes`.

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
        self.empty = empty
        # What one token and what one forward leaves, from prefixes of one and of two tokens.
        one, two = (self._extend(empty, probe[:tokens]).nbytes for tokens in (1, 2))
        self.footprint = Footprint(two - one, 2 * one - two, forward_tokens)
        self._copy_bytes = copy_bytes
        self.costs = costs or Costs.shipped("cpu" if mx.default_device() == mx.cpu else "gpu")
        self._cost = functools.cache(self.costs.of)
        self.store = store or PrefixStore(0, lambda: 0.0)

    @property
    def shares_forwards(self) -> bool:
        """Whether several tails can run in one forward."""
        return self.empty.shares_forwards

    def read(self, work: Work[Result], tally: Tally) -> Steps[Result]:
        """Run a request: the results that each forward completed."""
        progress: _Progress[Result] = _Progress(tally)
        prefix: Prefix | None = None
        while passes := work.rounds.next_round():
            shared = [i for i, pass_ in enumerate(passes) if _continues(pass_, work.prefix)]
            if shared and prefix is None:
                prefix = yield from self._prefill(work.prefix, self.store.chain(work.salt), progress)
            if prefix is not None:
                yield from self._read_tails(work, prefix, passes, shared, progress)
            for index in range(len(passes)):
                if index not in shared:
                    # A template whose prompts do not begin alike: this one is its own tail.
                    yield from self._read_tails(work, self.empty, passes, [index], progress)
        return progress.take()

    def prewarm(self, work: Prewarming, tally: Tally) -> Steps[Kept]:
        """Read a prefix and hold it in the store; ends with what came of it."""
        chain = self.store.chain(work.salt)
        progress: _Progress[Kept] = _Progress(tally)
        prefix: Prefix = yield from self._prefill(work.prefix, chain, progress)
        chain.hold(work.hold_s)
        if isinstance(prefix, SharedPrefix):
            return [Kept(chain.reason)]
        return [Kept("this model's caches cannot be kept between requests")]

    def _prefill(
        self, tokens: Sequence[int], chain: Chain, progress: _Progress[Result]
    ) -> Generator[Sequence[Result], None, Prefix]:
        prefix = self.empty
        progress.tally.input_tokens += len(tokens)
        for start in range(0, len(tokens), self.forward_tokens):
            piece = tokens[start : start + self.forward_tokens]
            # Before the store is asked: another request may read the same piece meanwhile.
            yield from progress.turn()
            if not isinstance(prefix, SharedPrefix):
                prefix = self._extend(prefix, piece)
                progress.count()
            elif (chunk := chain.find(piece)) is not None:
                prefix = prefix.extended(chunk)
                progress.tally.cached_tokens += len(piece)
            else:
                prefix = self._extend(prefix, piece)
                progress.count()
                assert isinstance(prefix, SharedPrefix)
                chain.add(prefix.chunks[-1])
        return prefix

    def _extend(self, prefix: Prefix, tokens: Sequence[int]) -> Prefix:
        """Read one row of tokens behind a prefix."""
        caches = prefix.caches(1)
        self.head.forward([tokens], caches)
        return prefix.after(caches, len(tokens))

    def _read_tails(
        self,
        work: Work[Result],
        prefix: Prefix,
        passes: Sequence[Pass],
        indices: Sequence[int],
        progress: _Progress[Result],
    ) -> Generator[Sequence[Result], None, None]:
        # Passes that are alike are read once.
        alike: dict[Pass, list[int]] = {}
        for index in indices:
            alike.setdefault(passes[index], []).append(index)
        distinct = list(alike)
        tails = [pass_.tokens[prefix.length :] for pass_ in distinct]
        tally = progress.tally
        for group in self._groups(prefix, [len(tail) for tail in tails], work.isolated):
            first = tally.forwards
            last = yield from self._run([tails[place] for place in group], prefix, progress)
            scored = self.head.read(last, [distinct[place].labels for place in group])
            serials = tuple(range(first, tally.forwards))
            tally.input_tokens += sum(len(tails[place]) for place in group)
            for place, scores in zip(group, scored, strict=True):
                for index in alike[distinct[place]]:
                    result = work.rounds.receive(index, Scores(scores.values, scores.mass, serials))
                    if result is not None:
                        progress.results.append(result)

    def _groups(self, prefix: Prefix, lengths: Sequence[int], isolated: bool) -> list[list[int]]:
        if isolated or not prefix.shares_forwards:
            return [[place] for place in range(len(lengths))]
        return group_tails(
            lengths,
            self.forward_tokens,
            self._cost,
            self.head.pads,
            # What packs rows shows them the prefix without a copy.
            lambda rows, width: not self.head.pads or rows * prefix.row_bytes(width) <= self._copy_bytes,
        )

    def _run(
        self, tails: Sequence[Sequence[int]], prefix: Prefix, progress: _Progress[Result]
    ) -> Generator[Sequence[Result], None, mx.array]:
        """Run tails side by side; returns what the head reads at each one's end, (rows, d).

        A tail longer than a forward is alone: all but its last chunk become part of a prefix of its own.
        """
        width = max(len(tail) for tail in tails)
        for start in range(0, width - self.forward_tokens, self.forward_tokens):
            piece = tails[0][start : start + self.forward_tokens]
            yield from progress.turn()
            prefix = self._extend(prefix, piece)
            progress.count()
        read = (width - 1) // self.forward_tokens * self.forward_tokens
        rows = [tail[read:] for tail in tails]
        yield from progress.turn()
        ends = self.head.forward(rows, prefix.caches(len(rows)))
        progress.count()
        return ends


def alone(steps: Steps[Result]) -> Iterator[Sequence[Result]]:
    """Run a request without any others: what each of its forwards gave."""
    yield (yield from steps)


def _continues(pass_: Pass, prefix: Sequence[int]) -> bool:
    """Whether a pass begins with the prefix and has at least one token more, to read at."""
    return len(pass_.tokens) > len(prefix) and pass_.tokens[: len(prefix)] == tuple(prefix)
