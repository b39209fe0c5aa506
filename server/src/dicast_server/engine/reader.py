"""Reads passes out of a model in fixed forwards: a prefix in whole chunks, tails in groups over it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import mlx.core as mx
from mlx import nn

from dicast_server.decisions.passes import Pass, Scores
from dicast_server.engine.groups import group_tails
from dicast_server.engine.head import Head
from dicast_server.engine.prefix import Prefix, fresh_caches, keep

FORWARD_TOKENS = 128
"""The most tokens, padding included, that one forward carries; never by load."""

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
    """One request for the engine: passes that share a prefix. `isolated` reads one pass a forward."""

    prefix: tuple[int, ...]
    rounds: Rounds[Result]
    isolated: bool = False


@dataclass(slots=True)
class Tally:
    """Tokens that a request's prompts hold, the shared prefix once; and forwards that they took."""

    input_tokens: int = 0
    cached_tokens: int = 0
    forwards: int = 0


class Reader:
    """Owns a model's forwards. Everything here runs on the engine thread."""

    def __init__(self, model: nn.Module, probe: Sequence[int], forward_tokens: int = FORWARD_TOKENS) -> None:
        """Check the head's path on `probe`, a few token ids of labels."""
        self._model = model
        self.forward_tokens = forward_tokens
        self.head = Head(model, probe)
        self.shares_forwards = keep(fresh_caches(model), 0).shares_forwards

    def read(self, work: Work[Result], tally: Tally) -> Generator[list[Result], None, None]:
        """Run a request; yields after every forward with the results that the forward completed."""
        prefix: Prefix | None = None
        while passes := work.rounds.next_round():
            shared = [i for i, pass_ in enumerate(passes) if _continues(pass_, work.prefix)]
            if shared and prefix is None:
                prefix = yield from self._prefill(work.prefix, tally)
            if prefix is not None:
                yield from self._read_tails(work, prefix, passes, shared, tally)
            alone = [i for i, pass_ in enumerate(passes) if not _continues(pass_, work.prefix)]
            if alone:
                # A template whose prompts do not begin alike; each prompt is then its own tail.
                nothing = keep(fresh_caches(self._model), 0)
                for index in alone:
                    yield from self._read_tails(work, nothing, passes, [index], tally)

    def _prefill(self, tokens: Sequence[int], tally: Tally) -> Generator[list[Result], None, Prefix]:
        caches = fresh_caches(self._model)
        for start in range(0, len(tokens), self.forward_tokens):
            chunk = mx.array([tokens[start : start + self.forward_tokens]])
            self.head.forward(chunk, caches)
            mx.eval([cache.state for cache in caches])
            tally.forwards += 1
            yield []
        tally.input_tokens += len(tokens)
        return keep(caches, len(tokens))

    def _read_tails(
        self,
        work: Work[Result],
        prefix: Prefix,
        passes: Sequence[Pass],
        indices: Sequence[int],
        tally: Tally,
    ) -> Generator[list[Result], None, None]:
        tails = {index: passes[index].tokens[prefix.length :] for index in indices}
        for group in self._groups(prefix, [len(tails[index]) for index in indices], work.isolated):
            members = [indices[place] for place in group]
            first = tally.forwards
            last = yield from self._run([tails[index] for index in members], prefix, tally)
            scored = self.head.read(last, [passes[index].labels for index in members])
            serials = tuple(range(first, tally.forwards))
            tally.input_tokens += sum(len(tails[index]) for index in members)
            results = [
                work.rounds.receive(index, Scores(scores.values, scores.mass, serials))
                for index, scores in zip(members, scored, strict=True)
            ]
            yield [result for result in results if result is not None]

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

        Shorter rows are padded on the right: causal attention never lets a later position reach an
        earlier one. A tail longer than a forward is alone and runs in chunks, yielding between them.
        """
        width = max(len(tail) for tail in tails)
        caches = prefix.caches(len(tails), growing=width > self.forward_tokens)
        rows = mx.array([list(tail) + [0] * (width - len(tail)) for tail in tails])
        for start in range(0, width, self.forward_tokens):
            output = self.head.forward(rows[:, start : start + self.forward_tokens], caches)
            tally.forwards += 1
            end = start + self.forward_tokens
            if end < width:
                mx.eval(output)
                yield []
        ends = mx.array([len(tail) - 1 - start for tail in tails])
        return output[mx.arange(len(tails)), ends]


def _continues(pass_: Pass, prefix: Sequence[int]) -> bool:
    """Whether a pass begins with the prefix and has at least one token more, to read at."""
    return len(pass_.tokens) > len(prefix) and pass_.tokens[: len(prefix)] == tuple(prefix)
