"""The CPU's own way through a dense decoder against mlx-lm's."""

import math
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import tiny_models
from hypothesis import given
from hypothesis import strategies as st
from mlx import nn

from dicast_server.engine.cpu_trunk import CpuTrunk, exp, silu
from dicast_server.engine.head import Head
from dicast_server.engine.prefix import empty_prefix

FINITE = st.floats(-80, 80, width=32)


@given(st.lists(FINITE, min_size=1, max_size=64))
def test_exp_is_that_of_float64(values: list[float]) -> None:
    x = np.array(values, np.float64)
    ours = np.array(exp(mx.array(values, mx.float32))).astype(np.float64)
    assert np.all(np.abs(ours / np.exp(x) - 1) <= 2e-7 * (1 + np.abs(x)))


def test_exp_of_what_is_masked_is_next_to_nothing() -> None:
    assert np.array(exp(mx.array([-1e30, -200.0, -90.0]))).max() < 1e-35
    assert np.isnan(np.array(exp(mx.array([math.nan])))).all()


@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=64))
def test_silu_is_that_of_float64(values: list[float]) -> None:
    x = np.array(values, np.float64)
    ours = np.array(silu(mx.array(values, mx.float32)))
    assert ours == pytest.approx(x / (1 + np.exp(np.minimum(-x, 700))), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("prefix_chunks", [0, 1, 3])
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (1, 40), (3, 7)])
def test_it_gives_mlx_lms_hidden_states(family: str, prefix_chunks: int, rows: int, width: int) -> None:
    model = tiny_models.family(family)
    trunk = CpuTrunk.of(model)
    assert trunk is not None
    random = np.random.default_rng(0)
    prefix = empty_prefix(model)
    for _ in range(prefix_chunks):
        caches = prefix.caches(1)
        trunk(mx.array(random.integers(0, 128, (1, 20))), caches)
        prefix = prefix.after(caches, 20)
    tokens = mx.array(random.integers(0, 128, (rows, width)))
    ours = np.array(trunk(tokens, prefix.caches(rows)))
    theirs = np.array(model.model(tokens, cache=prefix.caches(rows)))
    assert ours == pytest.approx(theirs, abs=2e-4)


@pytest.mark.parametrize(
    "prepare",
    [
        lambda model: model.set_dtype(mx.bfloat16),
        lambda model: nn.quantize(model, group_size=32, bits=8),
    ],
    ids=["half", "quantised"],
)
def test_it_is_for_float32_alone(prepare: Any) -> None:
    model = tiny_models.family("llama")
    prepare(model)
    assert CpuTrunk.of(model) is None


@pytest.mark.parametrize("family", [f for f in tiny_models.FAMILIES if f not in ("llama", "qwen2", "qwen3")])
def test_other_families_go_mlx_lms_way(family: str) -> None:
    assert CpuTrunk.of(tiny_models.family(family)) is None


def test_sliding_windows_go_mlx_lms_way() -> None:
    model = tiny_models.family(
        "llama", layer_types=["full_attention", "sliding_attention"], sliding_window=16
    )
    assert CpuTrunk.of(model) is None


def test_a_trunk_that_differs_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_models.family("llama")
    assert Head(model, range(60, 68)).runs_on == "CpuTrunk"

    class Wrong:
        def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
            hidden: mx.array = model.model(tokens) + 1.0
            return hidden

    monkeypatch.setattr(CpuTrunk, "of", classmethod(lambda cls, model: Wrong()))
    assert Head(model, range(60, 68)).runs_on == "LlamaModel"
