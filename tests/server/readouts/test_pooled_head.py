"""The pooled readout's head: what it computes, against a plain loop, and which tensors it takes."""

import math
from collections.abc import Sequence

import numpy as np
import pooled_heads
import pytest
from numpy.typing import NDArray

from dicast_server.readouts.pooled_head import PooledHead

SIZE = 7
RANK = 3


def by_hand(
    of: dict[str, NDArray[np.float64]], is_predicate: bool, means: Sequence[Sequence[float]]
) -> list[float]:
    """The published formula number by number."""
    every = range(SIZE)
    root = math.sqrt(SIZE)

    def unit(mean: Sequence[float], kind: int) -> list[float]:
        z = [(mean[i] - of["centre"][kind][i]) / of["spread"][kind][i] for i in every]
        length = math.sqrt(sum(x * x for x in z))
        return [x / length * root if length else 0.0 for x in z]

    def product(name: str, x: Sequence[float]) -> list[float]:
        inner = [sum(of[f"{name}_in"][k][i] * x[i] for i in every) for k in range(RANK)]
        return [sum(of[f"{name}_out"][i][k] * inner[k] for k in range(RANK)) for i in every]

    s, q = unit(means[0], 0), unit(means[1], 1)
    m, g = product("mix", s), product("gate", q)
    key = [(s[i] * of["likeness"][0][i] + m[i]) * (1 + g[i] / root) for i in every]
    scores = []
    for mean in means[2:]:
        o = unit(mean, 2)
        scores.append(of["weight"][0] * 8 / SIZE * sum(o[i] * key[i] for i in every))
    if is_predicate:
        p = product("claim", s)
        holds = sum((s[i] * of["likeness"][1][i] + p[i]) * q[i] for i in every)
        scores = [score * 0.3 * of["weight"][2] for score in scores]
        scores[0] += of["weight"][1] * 3 / SIZE * holds + of["offset"][0]
    return [float(score) for score in scores]


@pytest.mark.parametrize("is_predicate", [True, False])
@pytest.mark.parametrize("options", [2, 5])
def test_scores_are_those_of_the_formula(is_predicate: bool, options: int) -> None:
    tensors = pooled_heads.tensors(SIZE, RANK)
    means = np.random.default_rng(options).normal(size=(2 + options, SIZE))
    found = PooledHead.of(tensors).scores(is_predicate, means)
    assert found == pytest.approx(by_hand(tensors, is_predicate, means.tolist()), rel=1e-12)


def test_a_mean_that_is_the_usual_one_stays_zeros() -> None:
    tensors = {**pooled_heads.tensors(SIZE, RANK), "centre": np.zeros((3, SIZE))}
    means = [[1.0] * SIZE, [0.0] * SIZE, [0.0] * SIZE, [2.0] * SIZE]
    found = PooledHead.of(tensors).scores(True, means)
    assert found == pytest.approx(by_hand(tensors, True, means), rel=1e-12)
    assert found[1] != 0.0


def test_half_precision_is_widened() -> None:
    tensors = pooled_heads.tensors(SIZE, RANK)
    halves = {name: numbers.astype(np.float16) for name, numbers in tensors.items()}
    widened = {name: numbers.astype(np.float64) for name, numbers in halves.items()}
    means = np.random.default_rng(1).normal(size=(4, SIZE))
    assert PooledHead.of(halves).scores(False, means) == PooledHead.of(widened).scores(False, means)


def test_what_is_given_may_change_afterwards() -> None:
    tensors = pooled_heads.tensors(SIZE, RANK)
    head = PooledHead.of(tensors)
    means = np.ones((4, SIZE))
    before = head.scores(False, means)
    tensors["likeness"][:] = 0.0
    assert head.scores(False, means) == before


@pytest.mark.parametrize("means", [np.ones((4, SIZE + 1)), np.ones((2, SIZE)), np.ones(SIZE)])
def test_means_of_another_model_are_refused(means: NDArray[np.float64]) -> None:
    with pytest.raises(ValueError, match="means of 7 numbers"):
        pooled_heads.head(SIZE).scores(False, means)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"centre": None}, "no matrices centre and gate_in"),
        ({"mix_out": None}, "missing or unknown tensors: mix_out"),
        ({"extra": np.ones(1)}, "missing or unknown tensors: extra"),
        ({"claim_in": np.ones((RANK, SIZE + 1))}, "claim_in has shape"),
        ({"weight": np.ones((3, 1))}, "weight has shape"),
        ({"offset": np.array([math.nan])}, "offset has numbers that are not finite"),
        ({"spread": np.zeros((3, SIZE))}, "spread has numbers that are not above 0"),
    ],
)
def test_a_wrong_tensor_is_refused(change: dict[str, NDArray[np.float64] | None], problem: str) -> None:
    changed = {**pooled_heads.tensors(SIZE, RANK), **change}
    tensors = {name: numbers for name, numbers in changed.items() if numbers is not None}
    with pytest.raises(ValueError, match=problem):
        PooledHead.of(tensors)
