"""Reads passes out of a model in fixed forwards: prefixes in whole chunks, and what stands behind them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import mlx.core as mx
from mlx import nn

from dicast_server.decisions.passes import Pass, Scores
from dicast_server.engine.behind import longest_begun, read_behind
from dicast_server.engine.costs import Costs
from dicast_server.engine.cpu_trunk import CpuTrunk
from dicast_server.engine.footprint import Footprint, WholeForward
from dicast_server.engine.head import Head
from dicast_server.engine.independent import read_independently
from dicast_server.engine.kept import ScoreCache
from dicast_server.engine.outputs import Outputs, everywhere
from dicast_server.engine.prefix import Prefix, SharedPrefix, empty_prefix, opaque_prefix
from dicast_server.engine.progress import Kept, Progress, Result, Rounds, Steps, Tally, Turns, alone
from dicast_server.engine.selftest import outputs_agree, tails_agree
from dicast_server.engine.store import PrefixStore
from dicast_server.engine.tails import Receive, Tails, read_prefix

# What the engine's callers need is all here.
__all__ = [
    "COPY_BYTES",
    "FORWARD_TOKENS",
    "Kept",
    "Prewarming",
    "Reader",
    "Rounds",
    "Steps",
    "Tally",
    "Work",
    "alone",
]

FORWARD_TOKENS = 320
"""The most tokens, padding included, that one forward carries; never by load.

Measured on two cores of a CPU: from 128 to 320 the requests of the benchmarks take 20 to 40 % less time,
beyond it hardly less.
"""

COPY_BYTES = 512 * 1024 * 1024
"""The most bytes that one layer's copies for the rows of a forward may take, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Work(Generic[Result]):
    """One request for the engine.

    Attributes:
        prefixes: what passes begin with; each is read once, when a pass is the first to continue it. A
            pass is read behind the longest that it continues, and alone where it continues none.
        rounds: the passes.
        isolated: reads one pass, or one row of candidates, a forward.
        independent: reads each prompt whole in a forward of mlx-lm's own model, and neither finds nor keeps
            anything.
        salt: sets what is kept of this request apart: whoever gives another one finds none of it.
        nbytes: what the request takes in memory while it is read.
        through: the number of the reader that reads it, 0 for the base's.
    """

    prefixes: tuple[tuple[int, ...], ...]
    rounds: Rounds[Result]
    isolated: bool = False
    independent: bool = False
    salt: bytes = b""
    nbytes: int = 0
    through: int = 0

    def start(self, reader: Reader, tally: Tally) -> Steps[Result]:
        """The request's steps."""
        return reader.beside(self.through).read(self, tally)


@dataclass(frozen=True, slots=True)
class Prewarming:
    """A request to read a prefix and to hold it in the store for `hold_s` seconds; see `Work`."""

    prefix: tuple[int, ...]
    salt: bytes
    hold_s: float
    nbytes: int = 0
    through: int = 0

    def start(self, reader: Reader, tally: Tally) -> Steps[Kept]:
        """The request's steps."""
        return reader.beside(self.through).prewarm(self, tally)


class Reader:
    """Owns a model's forwards and the prefixes that are kept. Everything here runs on the engine thread.

    The base's reader has those of its adapters beside it, by number. They share its store.
    """

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
        head: Head | None = None,
        number: int = 0,
        pools: bool = False,
    ) -> None:
        """Check the head's path and the views on `probe`, a few token ids of labels.

        `threads` are those of a CPU that run a forward; tails are grouped by `costs`, by default those that
        come with dicast for the device. The copies that a layer makes of a prefix for the rows of a forward
        take at most `copy_bytes`. `head` is that of the model where it has been found already, and
        `number` tells apart what is kept by whom. One that `pools` reads spans, and keeps what they need of
        prefixes.

        Raises:
            ValueError: tails give something else than full forwards, whichever way they are run; or it pools
                and the model's hidden states are not there to read.
        """
        self.forward_tokens = forward_tokens
        self.number = number
        self.pools = pools
        self.head = head or Head(model, probe, threads)
        self._cpu_trunk: CpuTrunk | None = self.head.cpu_trunk
        self._stock = self.head.stock
        ways = [empty_prefix(model), opaque_prefix(model)]
        agreeing = (way for way in ways if tails_agree(self.head, way, probe, forward_tokens))
        empty = next(agreeing, None)
        if empty is None:
            raise ValueError("tails over a prefix differ from full forwards")
        if pools and not (self._stock.split and outputs_agree(self.head, empty, probe, forward_tokens)):
            raise ValueError("its hidden states cannot be read, which its head is made for")
        self.empty = empty
        # What one token and what one forward leaves, from prefixes of one and of two tokens.
        one, two = (_bytes_left(self.head, empty, probe[:tokens], pools) for tokens in (1, 2))
        self.footprint = Footprint(two - one, 2 * one - two, forward_tokens, not empty.shares_forwards)
        self._copy_bytes = copy_bytes
        self.costs = costs or Costs.shipped("cpu" if mx.default_device() == mx.cpu else "gpu")
        self._cost = functools.cache(self.costs.of)
        self.store = store or PrefixStore(0, lambda: 0.0)
        self._scores = ScoreCache()
        self._probe, self._threads = probe, threads
        self._adapted: dict[int, Reader] = {}

    @property
    def whole_forward(self) -> WholeForward:
        """What a forward of an independent request takes in memory."""
        return self._stock.whole_forward

    @property
    def shares_forwards(self) -> bool:
        """Whether several tails can run in one forward."""
        return self.empty.shares_forwards

    def beside(self, number: int) -> Reader:
        """The reader of a number: this one, or that of an adapter.

        Raises:
            KeyError: there is none.
        """
        return self if number == self.number else self._adapted[number]

    def adapt(self, model: nn.Module, number: int, pools: bool = False) -> Turns[Result, Reader]:
        """Have a reader of the same model with an adapter beside this one; others take turns meanwhile.

        `pools` and what it raises are as of the constructor.
        """
        head = Head(model, self._probe, self._threads, self._cpu_trunk)
        yield ()
        made = self._adapted[number] = Reader(
            model,
            self._probe,
            self.forward_tokens,
            self.store,
            threads=self._threads,
            costs=self.costs,
            copy_bytes=self._copy_bytes,
            head=head,
            number=number,
            pools=pools,
        )
        return made

    def drop(self, number: int) -> None:
        """Forget an adapter's reader and what it has kept. No request may be left that it reads."""
        self._adapted.pop(number, None)
        self.store.forget(number)
        mx.clear_cache()

    def read(self, work: Work[Result], tally: Tally) -> Steps[Result]:
        """Run a request: the results that each forward completed."""
        progress: Progress[Result] = Progress(tally)
        prefixes: dict[tuple[int, ...], Prefix] = {}
        while passes := work.rounds.next_round():
            # Passes that are alike are read once.
            alike: dict[Pass, list[int]] = {}
            for index, pass_ in enumerate(passes):
                alike.setdefault(pass_, []).append(index)

            def receive(pass_: Pass, scores: Scores, alike: dict[Pass, list[int]] = alike) -> None:
                for index in alike[pass_]:
                    progress.results.extend(work.rounds.receive(index, scores))

            if work.independent:
                for pass_ in alike:
                    receive(pass_, (yield from read_independently(self._stock, pass_, progress)))
            else:
                yield from self._read_round(work, list(alike), prefixes, progress, receive)
        return progress.take()

    def prewarm(self, work: Prewarming, tally: Tally) -> Steps[Kept]:
        """Read a prefix and hold it in the store; ends with what came of it."""
        chain = self.store.chain(work.salt, self.number)
        progress: Progress[Kept] = Progress(tally)
        prefix = yield from read_prefix(self._tails(progress), self.empty, work.prefix, chain)
        chain.hold(work.hold_s)
        if isinstance(prefix, SharedPrefix):
            return [Kept(chain.reason)]
        return [Kept("this model's caches cannot be kept between requests")]

    def _tails(self, progress: Progress[Result]) -> Tails[Result]:
        return Tails(self.head, progress, self.forward_tokens, self._cost, self._copy_bytes, self.pools)

    def _read_round(
        self,
        work: Work[Result],
        passes: Sequence[Pass],
        prefixes: dict[tuple[int, ...], Prefix],
        progress: Progress[Result],
        receive: Receive,
    ) -> Turns[Result, None]:
        """Read distinct passes; `prefixes` are those that were read, and get those that are read now."""
        tails = self._tails(progress)
        behind: dict[tuple[int, ...], list[Pass]] = {prefix: [] for prefix in work.prefixes}
        apart: list[Pass] = []
        for pass_ in passes:
            if pass_.kept and (kept := self._scores.find(work.salt, pass_)) is not None:
                progress.tally.input_tokens += kept.tokens
                progress.tally.cached_tokens += kept.tokens
                receive(pass_, kept.scores)
            elif pass_.kept or (prefix := longest_begun(pass_, work.prefixes)) is None:
                # Its scores must not feel any neighbours, or its template begins prompts in other ways.
                apart.append(pass_)
            else:
                behind[prefix].append(pass_)
        for tokens, together in behind.items():
            if together and tokens not in prefixes:
                chain = self.store.chain(work.salt, self.number)
                prefixes[tokens] = yield from read_prefix(tails, self.empty, tokens, chain)
            if together:
                yield from read_behind(tails, prefixes[tokens], together, work.isolated, receive)
        for pass_ in apart:
            yield from self._read_apart(tails, work, pass_, receive)

    def _read_apart(
        self, tails: Tails[Result], work: Work[Result], pass_: Pass, receive: Receive
    ) -> Turns[Result, None]:
        """Read a pass behind nothing, and keep its scores where they may be kept.

        Those are read alike in all requests, whether these are isolated or not.
        """
        tally = tails.progress.tally
        before = tally.input_tokens

        def keep(pass_: Pass, scores: Scores) -> None:
            self._scores.keep(work.salt, pass_, scores, tally.input_tokens - before)
            receive(pass_, scores)

        isolated = work.isolated and not pass_.kept
        yield from read_behind(tails, self.empty, [pass_], isolated, keep if pass_.kept else receive)


def _bytes_left(head: Head, empty: Prefix, tokens: Sequence[int], pools: bool) -> int:
    """What one forward of so many tokens leaves."""
    caches = empty.caches(1)
    picked = head.forward([tokens], caches, everywhere([tokens]))
    return empty.after(caches, len(tokens), Outputs.of(picked) if pools else None).nbytes
