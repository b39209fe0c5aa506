"""A model with an adapter beside its weights: mlx-lm's own LoRA over shared arrays, or a reason."""

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import tiny_adapters
import tiny_models
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.tuner.utils import load_adapters

from dicast_server.adapters.errors import AdapterRefused
from dicast_server.models.adapted import adapted

IDS = [(7 * place) % 128 for place in range(20)]


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "gemma3_text"])
def test_it_is_the_model_that_mlx_lm_makes_of_the_folder(family: str, tmp_path: Path) -> None:
    model = tiny_models.family(family)
    loaded = tiny_adapters.loaded(model)
    adapter = tiny_adapters.write(tmp_path / "support", loaded)
    ours = adapted(loaded, adapter, (tmp_path / "support" / "adapters.safetensors").read_bytes())
    theirs = load_adapters(tiny_models.family(family), str(tmp_path / "support"))
    assert np.array_equal(tiny_models.logits(ours, IDS), tiny_models.logits(theirs, IDS))


def test_some_layers_alone_may_be_adapted(tmp_path: Path) -> None:
    model = tiny_models.family("llama")
    loaded = tiny_adapters.loaded(model)
    modules = ("model.layers.0.mlp.up_proj", "model.layers.1.self_attn.q_proj")
    adapter = tiny_adapters.write(tmp_path / "some", loaded, modules=modules)
    ours = adapted(loaded, adapter, (tmp_path / "some" / "adapters.safetensors").read_bytes())
    theirs = load_adapters(tiny_models.family("llama"), str(tmp_path / "some"))
    assert np.array_equal(tiny_models.logits(ours, IDS), tiny_models.logits(theirs, IDS))


def test_the_base_stays_as_it_is_and_shares_its_arrays() -> None:
    model = tiny_models.family("llama")
    loaded = tiny_adapters.loaded(model)
    before, arrays = tiny_models.logits(model, IDS), dict(tree_flatten(model.parameters()))
    first = adapted(loaded, *tiny_adapters.of(loaded, 1))
    second = adapted(loaded, *tiny_adapters.of(loaded, 2))
    outputs = [tiny_models.logits(each, IDS) for each in (first, second)]
    assert not np.allclose(outputs[0], outputs[1])
    assert np.array_equal(tiny_models.logits(model, IDS), before)
    after = dict(tree_flatten(model.parameters()))
    assert after.keys() == arrays.keys()
    assert all(after[name] is arrays[name] for name in arrays)
    for each in (first, second):
        held = {name.replace(".linear.", "."): array for name, array in tree_flatten(each.parameters())}
        assert all(held[name] is arrays[name] for name in arrays)


def test_a_quantised_base_keeps_its_weights() -> None:
    model = tiny_models.family("llama")
    nn.quantize(model, group_size=32, bits=4)
    loaded = tiny_adapters.loaded(model)
    before = tiny_models.logits(model, IDS)
    ours = adapted(loaded, *tiny_adapters.of(loaded))
    assert not np.allclose(tiny_models.logits(ours, IDS), before)
    assert np.array_equal(tiny_models.logits(model, IDS), before)


def test_another_base_is_refused_with_both_hashes() -> None:
    loaded = tiny_adapters.loaded(tiny_models.family("llama"))
    adapter, weights = tiny_adapters.of(loaded)
    other = tiny_adapters.loaded(loaded.model, weights_hash="b" * 64)
    with pytest.raises(AdapterRefused) as refused:
        adapted(other, adapter, weights)
    assert "a" * 64 in str(refused.value)
    assert "b" * 64 in str(refused.value)


UP = "model.layers.0.mlp.up_proj"


def changed(change: Callable[[dict[str, Any]], Any]) -> str:
    """Why the tensors are refused after a change."""
    loaded = tiny_adapters.loaded(tiny_models.family("llama"))
    adapter, _ = tiny_adapters.of(loaded)
    tensors: dict[str, Any] = tiny_adapters.tensors_of(loaded.model, adapter.modules, adapter.rank)
    change(tensors)
    with pytest.raises(AdapterRefused) as refused:
        adapted(loaded, adapter, tiny_adapters.content(tensors))
    return str(refused.value)


def put(name: str, array: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda tensors: tensors.update({name: array})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda tensors: tensors.pop(f"{UP}.lora_b"), rf"has no {UP}.lora_b"),
        (lambda tensors: tensors.clear() or tensors.update(a=mx.ones(1)), r"and 24 more"),
        (put("lm_head.lora_a", mx.ones((64, 4))), r"has lm_head.lora_a, which none of its modules needs"),
        (put(f"{UP}.lora_a", mx.ones((64, 8))), r"of rank 4 has .*lora_a of the shape \(64, 8\)"),
        (put(f"{UP}.lora_b", mx.ones((4, 95))), r"lora_b of the shape \(4, 95\), and it must be \(4, 96\)"),
        (put(f"{UP}.lora_a", mx.ones((4, 64)).T.reshape(256)), r"\(256,\)"),
        (put(f"{UP}.lora_a", mx.ones((64, 4), dtype=mx.int32)), r"in int32, not in float32"),
        (put(f"{UP}.lora_a", mx.full((64, 4), mx.nan)), rf"not finite in {UP}.lora_a"),
        (put(f"{UP}.lora_b", mx.full((4, 96), mx.inf)), rf"not finite in {UP}.lora_b"),
    ],
)
def test_what_is_not_what_it_says_is_refused(change: Callable[[dict[str, Any]], Any], says: str) -> None:
    assert re.search(says, changed(change))


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_matrices_in_half_precision_are_widened(dtype: mx.Dtype) -> None:
    loaded = tiny_adapters.loaded(tiny_models.family("llama"))
    adapter, _ = tiny_adapters.of(loaded)
    tensors = tiny_adapters.tensors_of(loaded.model, adapter.modules, adapter.rank)
    half = {name: tensor.astype(dtype) for name, tensor in tensors.items()}
    wide = {name: tensor.astype(mx.float32) for name, tensor in half.items()}
    ours, theirs = (adapted(loaded, adapter, tiny_adapters.content(each)) for each in (half, wide))
    held = [array for name, array in tree_flatten(ours.parameters()) if "lora" in name]
    assert {array.dtype for array in held} == {mx.float32}
    assert np.array_equal(tiny_models.logits(ours, IDS), tiny_models.logits(theirs, IDS))


@pytest.mark.parametrize("cut", [1, 4, 1000, 10_000])
def test_weights_that_are_cut_off_are_refused(cut: int) -> None:
    loaded = tiny_adapters.loaded(tiny_models.family("llama"))
    adapter, weights = tiny_adapters.of(loaded)
    with pytest.raises(AdapterRefused, match="cut off or damaged"):
        adapted(loaded, adapter, weights[:-cut])


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("model.layers.2.mlp.up_proj", "no such layer"),
        ("model.layers.x.mlp.up_proj", "no such layer"),
        ("model.layers.0.mlp.up_proj.weight", "a array there"),
        ("model.layers.0.mlp.up_proj.weight.T", "no such layer"),
        ("model.embed_tokens", "a Embedding there"),
        ("model.layers", "a list there"),
    ],
)
def test_what_is_no_linear_layer_is_refused(path: str, there: str) -> None:
    loaded = tiny_adapters.loaded(tiny_models.family("llama"))
    adapter, _ = tiny_adapters.of(loaded)
    named = adapter.model_copy(update={"modules": (path,)})
    tensors = {f"{path}.lora_a": mx.ones((64, 4)), f"{path}.lora_b": mx.ones((4, 96))}
    with pytest.raises(AdapterRefused, match=there):
        adapted(loaded, named, tiny_adapters.content(tensors))


def test_a_refused_adapter_leaves_the_base_as_it_was() -> None:
    model = tiny_models.family("llama")
    loaded = tiny_adapters.loaded(model)
    before, held = tiny_models.logits(model, IDS), copy.copy(model.model.layers)
    adapter, weights = tiny_adapters.of(loaded)
    with pytest.raises(AdapterRefused):
        adapted(loaded, adapter.model_copy(update={"rank": 8}), weights)
    assert np.array_equal(tiny_models.logits(model, IDS), before)
    assert model.model.layers == held
