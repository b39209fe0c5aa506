"""What the tests of reading share: requests of one round, models, and what a full forward says."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import tiny_models
from mlx import nn
from mlx_lm.models.cache import KVCache

from dicast_server.decisions.passes import Pass, Scores
from dicast_server.engine.reader import Reader, Tally, Work, alone
from dicast_server.engine.store import PrefixStore

VOCABULARY = 128
LABELS = tuple(range(60, 112))
TOLERANCE = 1e-4


class Once:
    """One round of passes, whose scores it keeps."""

    def __init__(self, passes: Sequence[Pass]) -> None:
        self._left: Sequence[Pass] = passes
        self.scores: dict[int, Scores] = {}

    def next_round(self) -> Sequence[Pass]:
        passes, self._left = self._left, []
        return passes

    def receive(self, index: int, scores: Scores) -> list[int]:
        assert index not in self.scores
        self.scores[index] = scores
        return [index]


def tokens(count: int, seed: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(seed).integers(0, VOCABULARY, count).tolist())


def passes_over(prefix: tuple[int, ...], lengths: Sequence[int]) -> list[Pass]:
    return [Pass(prefix + tokens(n, seed), LABELS[: 2 + seed % 50]) for seed, n in enumerate(lengths)]


def read(
    reader: Reader, prefix: tuple[int, ...], passes: Sequence[Pass], isolated: bool = False
) -> tuple[dict[int, Scores], Tally, list[list[int]]]:
    """Read passes behind one prefix: their scores, the tally, and what each step gave."""
    return read_work(reader, passes, prefixes=(prefix,), isolated=isolated)


def read_work(
    reader: Reader, passes: Sequence[Pass], prefixes: tuple[tuple[int, ...], ...] = (), **more: Any
) -> tuple[dict[int, Scores], Tally, list[list[int]]]:
    """Read passes in a request with any of the settings of `Work`."""
    rounds, tally = Once(passes), Tally()
    work: Work[int] = Work(prefixes, rounds, **more)
    steps = [list(step) for step in alone(reader.read(work, tally))]
    return rounds.scores, tally, steps


def log_probabilities(model: nn.Module, pass_: Pass) -> tuple[list[float], float]:
    """By one full forward, without any cache: the labels' log-probabilities and their mass."""
    logits = tiny_models.logits(model, list(pass_.tokens))[-1].astype(np.float64)
    whole = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
    chosen = whole[list(pass_.labels)]
    return chosen.tolist(), float(np.exp(chosen).sum())


def assert_same(model: nn.Module, pass_: Pass, scores: Scores) -> None:
    expected, mass = log_probabilities(model, pass_)
    values = np.array(scores.values)
    # Scores are logits: alike up to one number a row, which no softmax sees.
    assert values - values[0] == pytest.approx(np.array(expected) - expected[0], abs=TOLERANCE)
    assert scores.mass == pytest.approx(mass, abs=TOLERANCE)


def storing(model: nn.Module, budget: int = 2**30, forward_tokens: int = 32) -> Reader:
    return Reader(model, LABELS[:8], forward_tokens, PrefixStore(budget, lambda: 0.0))


def values(scores: dict[int, Scores]) -> dict[int, Any]:
    """Without the forwards' numbers, which count from the request's first."""
    return {index: (score.values, score.mass) for index, score in scores.items()}


class Odd(KVCache):  # type: ignore[misc] # mlx-lm has no types
    """A cache that nothing here knows."""


class WithOddCaches(nn.Module):  # type: ignore[misc] # mlx.nn has no types
    """A model whose layers remember in an unknown way."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.model = inner.model
        self.inner = inner

    def make_cache(self) -> list[Any]:
        return [Odd(), Odd()]

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        logits: mx.array = self.inner(tokens, cache=cache)
        return logits
