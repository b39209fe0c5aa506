"""The CPU's own way through a dense decoder against mlx-lm's."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import tiny_models
from mlx import nn
from mlx_lm.tuner.utils import linear_to_lora_layers

from dicast_server.engine import cpu_layers, cpu_trunk
from dicast_server.engine.cpu_trunk import CpuTrunk
from dicast_server.engine.head import Head
from dicast_server.engine.prefix import empty_prefix


def ids(random: np.random.Generator, count: int) -> list[int]:
    return [int(token) for token in random.integers(0, 128, count)]


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("prefix_chunks", [0, 1, 3])
@pytest.mark.parametrize("lengths", [[1], [40], [7, 3, 7], [26, 1, 30]])
@pytest.mark.parametrize("threads", [1, 3])
def test_it_gives_mlx_lms_hidden_states(
    family: str, prefix_chunks: int, lengths: list[int], threads: int
) -> None:
    model = tiny_models.family(family)
    trunk = CpuTrunk.of(model, threads)
    assert trunk is not None
    random = np.random.default_rng(0)
    prefix = empty_prefix(model)
    for _ in range(prefix_chunks):
        caches = prefix.caches(1)
        trunk([ids(random, 20)], caches)
        prefix = prefix.after(caches, 20)
    rows = [ids(random, length) for length in lengths]
    ours = np.array(trunk(rows, prefix.caches(len(rows))))
    for row, hidden in zip(rows, ours, strict=True):
        theirs = np.array(model.model(mx.array([row]), cache=prefix.caches(1)))[0, -1]
        assert hidden == pytest.approx(theirs, abs=2e-4)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_row_adds_its_keys_and_values(threads: int) -> None:
    model = tiny_models.family("qwen3")
    trunk = CpuTrunk.of(model, threads)
    assert trunk is not None
    row, views, expected = ids(np.random.default_rng(1), 40), *(empty_prefix(model).caches(1) for _ in "ab")
    trunk([row], views)
    mx.eval(model.model(mx.array([row]), cache=expected))
    for ours, theirs in zip(views, expected, strict=True):
        for array, other in zip(ours.added, theirs.added, strict=True):
            assert np.array(array) == pytest.approx(np.array(other), abs=2e-4)


@pytest.mark.parametrize(
    "prepare",
    [
        lambda model: model.set_dtype(mx.bfloat16),
        lambda model: nn.quantize(model, group_size=32, bits=8),
        lambda model: linear_to_lora_layers(
            model, 1, {"rank": 2, "scale": 1.0, "dropout": 0.0}, use_dora=True
        ),
    ],
    ids=["half", "quantised", "dora"],
)
def test_it_is_for_plain_float32_alone(prepare: Any) -> None:
    model = tiny_models.family("llama")
    prepare(model)
    assert CpuTrunk.of(model, 1) is None


@pytest.mark.parametrize("family", [f for f in tiny_models.FAMILIES if f not in ("llama", "qwen2", "qwen3")])
def test_other_families_go_mlx_lms_way(family: str) -> None:
    assert CpuTrunk.of(tiny_models.family(family), 1) is None


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 64},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
        {"rope_type": "linear", "factor": 2.0},
    ],
    ids=lambda rope: str(rope["rope_type"]),
)
def test_positions_are_the_models_own(rope: dict[str, Any]) -> None:
    model = tiny_models.family("llama", rope_scaling=rope)
    trunk = CpuTrunk.of(model, 2)
    assert trunk is not None
    row = ids(np.random.default_rng(0), 120)
    assert np.array(trunk([row])) == pytest.approx(np.array(model.model(mx.array([row])))[:, -1], abs=2e-4)


def test_pairs_turned_side_by_side_go_mlx_lms_way() -> None:
    assert CpuTrunk.of(tiny_models.family("llama", rope_traditional=True), 1) is None


def test_sliding_windows_go_mlx_lms_way() -> None:
    model = tiny_models.family(
        "llama", layer_types=["full_attention", "sliding_attention"], sliding_window=16
    )
    assert CpuTrunk.of(model, 1) is None


def test_a_trunk_that_differs_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_models.family("llama")
    assert Head(model, range(60, 68)).runs_on == "CpuTrunk"

    class Wrong:
        def __call__(self, rows: list[list[int]], views: Any = None) -> mx.array:
            hidden: mx.array = model.model(mx.array([list(row) for row in rows]))[:, -1] + 1.0
            return hidden

    monkeypatch.setattr(CpuTrunk, "of", classmethod(lambda cls, model, threads, base: Wrong()))
    assert Head(model, range(60, 68)).runs_on == "LlamaModel"


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_thread_that_fails_fails_the_forward_and_keeps_nobody_waiting(
    failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    trunk = CpuTrunk.of(tiny_models.family("llama"), 3)
    assert trunk is not None
    row = ids(np.random.default_rng(2), 60)
    before = np.array(trunk([row]))

    def attend(queries: Any, prefix: Any, keys: Any, values: Any, spans: Any) -> Any:
        if spans[0].start == failing * 20:
            raise MemoryError("no room")
        return cpu_layers.attend(queries, prefix, keys, values, spans)

    monkeypatch.setattr(cpu_trunk, "attend", attend)
    with pytest.raises(MemoryError, match="no room"):
        trunk([row])
    monkeypatch.undo()
    assert np.array_equal(np.array(trunk([row])), before)
