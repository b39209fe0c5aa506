"""Runs rows over a prefix in forwards of a fixed size, and reads the labels at their ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias

import mlx.core as mx

from dicast_server.decisions.passes import Pass, Scores
from dicast_server.engine.groups import group_tails
from dicast_server.engine.head import Head
from dicast_server.engine.outputs import Outputs, everywhere
from dicast_server.engine.prefix import Prefix, SharedPrefix
from dicast_server.engine.progress import Progress, Result, Turns
from dicast_server.engine.store import Chain

Receive: TypeAlias = Callable[[Pass, Scores], None]
"""Takes the scores of a pass as soon as they are read."""


@dataclass(frozen=True, slots=True)
class Tails(Generic[Result]):
    """The forwards of one request.

    Attributes:
        head: what runs and reads.
        progress: of the request.
        forward_tokens: the most tokens of one forward, padding included.
        cost: what a forward of so many tokens costs.
        copy_bytes: the most that one layer's copies of a prefix for the rows of a forward take.
        pools: prefixes keep the trunk's outputs, which spans are read of.
    """

    head: Head
    progress: Progress[Result]
    forward_tokens: int
    cost: Callable[[int], float]
    copy_bytes: int
    pools: bool = False

    def forward(
        self,
        rows: Sequence[Sequence[int]],
        prefix: Prefix,
        at: Sequence[tuple[int, int]] | None = None,
    ) -> Turns[Result, tuple[mx.array, list[Any]]]:
        """Run rows side by side, when it is this request's turn.

        Returns what the head reads at the end of each or at the (row, position) pairs of `at`, (places, d
        or vocabulary), and the caches that the rows ran on.
        """
        yield from self.progress.turn()
        caches = prefix.caches(len(rows))
        picked = self.head.forward(rows, caches, at)
        self.progress.count()
        return picked, caches

    def extend(self, prefix: Prefix, tokens: Sequence[int]) -> Turns[Result, Prefix]:
        """Read one row of tokens behind a prefix: the longer prefix."""
        for start in range(0, len(tokens), self.forward_tokens):
            piece = tokens[start : start + self.forward_tokens]
            if self.pools:
                picked, caches = yield from self.forward([piece], prefix, everywhere([piece]))
                prefix = prefix.after(caches, len(piece), Outputs.of(picked))
            else:
                _, caches = yield from self.forward([piece], prefix)
                prefix = prefix.after(caches, len(piece))
        return prefix

    def groups(self, prefix: Prefix, lengths: Sequence[int], isolated: bool) -> list[list[int]]:
        """Which rows of so many tokens run side by side; `isolated`: none."""
        if isolated or not prefix.shares_forwards:
            return [[place] for place in range(len(lengths))]
        return group_tails(
            lengths,
            self.forward_tokens,
            self.cost,
            self.head.pads,
            # What packs rows shows them the prefix without a copy.
            lambda rows, width: not self.head.pads or rows * prefix.row_bytes(width) <= self.copy_bytes,
        )

    def but_last(self, length: int) -> int:
        """How many tokens of a row go into forwards of their own, before the one that it ends in."""
        return (length - 1) // self.forward_tokens * self.forward_tokens

    def read(
        self, prefix: Prefix, passes: Sequence[Pass], isolated: bool, receive: Receive
    ) -> Turns[Result, None]:
        """Read the labels of passes that continue a prefix."""
        tails = [pass_.tokens[prefix.length :] for pass_ in passes]
        tally = self.progress.tally
        for group in self.groups(prefix, [len(tail) for tail in tails], isolated):
            first = tally.forwards
            ends = yield from self._ends([tails[place] for place in group], prefix)
            scored = self.head.read(ends, [passes[place].labels for place in group])
            tally.input_tokens += sum(len(tails[place]) for place in group)
            serials = self.progress.since(first)
            for place, scores in zip(group, scored, strict=True):
                receive(passes[place], Scores(scores.values, scores.mass, serials))

    def _ends(self, tails: Sequence[Sequence[int]], prefix: Prefix) -> Turns[Result, mx.array]:
        """What the head reads at the end of tails that run side by side, (rows, d or vocabulary).

        A tail longer than a forward is alone: all but its last piece become part of a prefix of its own.
        """
        read = self.but_last(max(len(tail) for tail in tails))
        prefix = yield from self.extend(prefix, tails[0][:read])
        ends, _ = yield from self.forward([tail[read:] for tail in tails], prefix)
        return ends


def read_prefix(
    tails: Tails[Result], empty: Prefix, tokens: Sequence[int], chain: Chain
) -> Turns[Result, Prefix]:
    """Read a prefix in whole chunks: those that the store has are found, the others are kept there."""
    prefix = empty
    tally = tails.progress.tally
    tally.input_tokens += len(tokens)
    for start in range(0, len(tokens), tails.forward_tokens):
        piece = tokens[start : start + tails.forward_tokens]
        # Before the store is asked: another request may read the same piece meanwhile.
        yield from tails.progress.turn()
        if not isinstance(prefix, SharedPrefix):
            prefix = yield from tails.extend(prefix, piece)
        elif (chunk := chain.find(piece)) is not None:
            prefix = prefix.extended(chunk)
            tally.cached_tokens += len(piece)
        else:
            prefix = yield from tails.extend(prefix, piece)
            assert isinstance(prefix, SharedPrefix)
            chain.add(prefix.chunks[-1])
    return prefix
