"""The arithmetic of the CPU's trunk against float64."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dicast_server.engine.cpu_layers import Array, Linear, Mlp, RmsNorm, Span, attend

FINITE = st.floats(-1e4, 1e4, width=32)
ONE = Linear(np.ones((1, 1), np.float32))


@given(st.lists(FINITE, min_size=1, max_size=64))
@np.errstate(over="ignore")
def test_mlp_gates_by_silu(values: list[float]) -> None:
    x = np.array(values, np.float32)[:, None]
    wide = x.astype(np.float64)
    expected = wide * wide / (1 + np.exp(np.minimum(-wide, 700)))
    assert Mlp(ONE, ONE, ONE)(x) == pytest.approx(expected, rel=1e-5, abs=1e-6)


@given(st.lists(FINITE, min_size=3, max_size=3))
def test_norm_is_that_of_float64(values: list[float]) -> None:
    x, weight = np.array(values, np.float32), np.array([1, -2, 0.5], np.float32)
    expected = x * weight / np.sqrt(np.mean(x.astype(np.float64) ** 2) + 1e-5)
    assert RmsNorm(weight, 1e-5)(x) == pytest.approx(expected, rel=1e-5)


def softmax_attention(query: Array, keys: Array, values: Array) -> NDArray[np.float64]:
    scores = keys.astype(np.float64) @ query.astype(np.float64)
    weights = np.exp(scores - scores.max())
    return np.asarray(weights @ values.astype(np.float64) / weights.sum())


@given(
    heads=st.integers(1, 3),
    groups=st.integers(1, 3),
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5)), min_size=1, max_size=4),
    parts=st.lists(st.integers(1, 6), max_size=3),
    scale=st.sampled_from([0.1, 1.0, 30.0]),
)
def test_attention_is_that_of_each_query_alone(
    heads: int, groups: int, rows: list[tuple[int, int]], parts: list[int], scale: float
) -> None:
    random = np.random.default_rng(0)

    def normal(*shape: int) -> Array:
        return random.standard_normal(shape, dtype=np.float32)

    # Only the first row may have tokens before those that ask: they are another thread's.
    earlier, widths, d = rows[0][0], [width for _, width in rows], 4
    bounds = np.cumsum([0, earlier + widths[0], *widths[1:]]).tolist()
    spans = [Span(row, max(row, earlier), end) for row, end in itertools.pairwise(bounds)]
    queries = normal(heads, groups, sum(widths), d) * np.float32(scale)
    prefix = [(normal(heads, tokens, d), normal(heads, tokens, d)) for tokens in parts]
    keys, values = normal(heads, bounds[-1] + 2, d), normal(heads, bounds[-1] + 2, d)
    attended = attend(queries, prefix, keys, values, spans)
    assert attended.shape == (sum(widths), heads, groups, d)
    for span in spans:
        for place, head, group in np.ndindex(span.end - span.start, heads, groups):
            asking, seen = span.start - earlier + place, span.start + place + 1
            expected = softmax_attention(
                queries[head, group, asking],
                np.concatenate([*(part[0][head] for part in prefix), keys[head, span.row : seen]]),
                np.concatenate([*(part[1][head] for part in prefix), values[head, span.row : seen]]),
            )
            assert attended[asking, head, group] == pytest.approx(expected, abs=1e-5)
