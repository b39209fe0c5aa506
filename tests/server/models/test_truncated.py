"""A model cut to its first layers, with an adapter and a head: what it computes, and what it refuses."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pooled_heads
import pytest
import safetensors.numpy
import tiny_adapters
import tiny_models
from mlx.utils import tree_flatten

from dicast_server.adapters import file
from dicast_server.adapters.document import TunedFor
from dicast_server.adapters.errors import AdapterRefused
from dicast_server.adapters.file import Contents
from dicast_server.engine.cpu_trunk import CpuTrunk
from dicast_server.engine.prefix import empty_prefix
from dicast_server.models.adapted import adapted, head_of
from dicast_server.models.truncated import truncated

IDS = [(7 * place) % 128 for place in range(20)]
POOLED = TunedFor(readout="pooled", prompt_version="pooled-v1")
DENSE = ("llama", "qwen2", "qwen3")


def by_hand(model: Any, layers: int) -> Any:
    """Hidden states (tokens, d) of the first layers, each of root mean square 1."""
    hidden = model.model.embed_tokens(mx.array([IDS]))
    for layer in model.model.layers[:layers]:
        hidden = layer(hidden, "causal")
    states = np.array(hidden[0]).astype(np.float64)
    return states / np.sqrt((states**2).mean(axis=1, keepdims=True) + model.model.norm.eps)


@pytest.mark.parametrize("family", DENSE)
@pytest.mark.parametrize("layers", [1, 2])
def test_it_is_the_first_layers_below_a_norm_of_ones(family: str, layers: int) -> None:
    model = tiny_models.family(family)
    model.model.norm.weight = model.model.norm.weight * 3
    ours = truncated(model, layers)
    assert np.array(ours.model(mx.array([IDS])))[0] == pytest.approx(by_hand(model, layers), abs=1e-5)
    assert len(ours.layers) == layers


def test_the_model_stays_as_it_is_and_shares_its_arrays() -> None:
    model = tiny_models.family("llama")
    before, arrays = tiny_models.logits(model, IDS), dict(tree_flatten(model.parameters()))
    held = dict(tree_flatten(truncated(model, 1).parameters()))
    assert all(array is arrays[name] for name, array in held.items() if name != "model.norm.weight")
    assert np.array_equal(tiny_models.logits(model, IDS), before)
    assert len(model.layers) == 2


@pytest.mark.parametrize("family", ["gemma3_text", "qwen3_5", "mamba2", "gpt_oss"])
def test_what_has_other_layers_cannot_be_cut(family: str) -> None:
    with pytest.raises(ValueError, match="only a llama, qwen2 or qwen3"):
        truncated(tiny_models.family(family), 1)


@pytest.mark.parametrize("layers", [0, 3])
def test_layers_that_there_are_not(layers: int) -> None:
    with pytest.raises(ValueError, match="has 2 layers"):
        truncated(tiny_models.family("llama"), layers)


def pooled(folder: Path, family: str = "llama", **how: Any) -> tuple[Any, Contents]:
    loaded = tiny_adapters.loaded(tiny_models.family(family))
    tiny_adapters.write_pooled(folder, loaded, POOLED, **how)
    return loaded, file.read_contents(folder)


@pytest.mark.parametrize("family", DENSE)
def test_the_cpus_trunk_runs_it_as_mlx_does(family: str, tmp_path: Path) -> None:
    loaded, contents = pooled(tmp_path / "support", family)
    tree = adapted(loaded, contents.adapter, contents.weights)
    base = CpuTrunk.of(loaded.model, 2)
    trunk = CpuTrunk.of(tree, 2, base)
    assert trunk is not None
    places = [(0, place) for place in range(len(IDS))]
    ours = np.array(trunk([IDS], empty_prefix(tree).caches(1), places))
    assert ours == pytest.approx(np.array(tree.model(mx.array([IDS])))[0], abs=1e-4)
    assert (ours**2).mean(axis=1) == pytest.approx(np.ones(len(IDS)), rel=1e-2)


def test_matrices_in_half_precision_are_close(tmp_path: Path) -> None:
    states = []
    for dtype in (mx.float32, mx.float16, mx.bfloat16):
        loaded, contents = pooled(tmp_path / "support", dtype=dtype)
        states.append(np.array(adapted(loaded, contents.adapter, contents.weights).model(mx.array([IDS]))))
    assert states[1] == pytest.approx(states[0], abs=0.05)
    assert states[2] == pytest.approx(states[0], abs=0.5)


def test_a_head_comes_with_its_adapter(tmp_path: Path) -> None:
    loaded, contents = pooled(tmp_path / "support", head_rank=5)
    head = head_of(loaded, contents)
    assert head is not None
    assert head.size == 64
    assert head.tensors["gate_in"].shape == (5, 64)
    plain = Contents(*tiny_adapters.of(loaded))
    assert head_of(loaded, plain) is None


def test_an_adapter_of_layers_that_are_cut_off_is_refused(tmp_path: Path) -> None:
    loaded, contents = pooled(tmp_path / "support", layers=2)
    assert contents.adapter.head is not None
    lower = contents.adapter.head.model_copy(update={"layers": 1})
    with pytest.raises(AdapterRefused, match="no such layer"):
        adapted(loaded, contents.adapter.model_copy(update={"head": lower}), contents.weights)


def test_a_head_of_a_model_that_cannot_be_cut_is_refused(tmp_path: Path) -> None:
    _, contents = pooled(tmp_path / "support")
    other = tiny_adapters.loaded(tiny_models.family("gemma3_text"))
    with pytest.raises(AdapterRefused, match="only a llama"):
        adapted(other, contents.adapter, contents.weights)
    with pytest.raises(AdapterRefused, match="only a llama"):
        head_of(other, contents)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "cut off or damaged"),
        (safetensors.numpy.save({"centre": np.zeros((3, 64))}), "cannot be read by its head"),
        (safetensors.numpy.save(pooled_heads.tensors(32)), "reads 32 numbers a token, and the model has 64"),
    ],
)
def test_a_head_that_is_none_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    loaded, contents = pooled(tmp_path / "support")
    with pytest.raises(AdapterRefused, match=says):
        head_of(loaded, Contents(contents.adapter, contents.weights, content))


def test_a_head_in_half_precision_is_read_and_one_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    loaded, contents = pooled(tmp_path / "support")
    tensors = {name: each.astype(np.float16) for name, each in pooled_heads.tensors(64).items()}
    stored = Contents(contents.adapter, contents.weights, safetensors.numpy.save(tensors))
    assert head_of(loaded, stored) is not None
    tensors["likeness"][0, 0] = np.nan
    broken = Contents(contents.adapter, contents.weights, safetensors.numpy.save(tensors))
    with pytest.raises(AdapterRefused, match="not finite"):
        head_of(loaded, broken)
