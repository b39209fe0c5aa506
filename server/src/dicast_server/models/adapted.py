"""A model with an adapter beside its weights: a second tree of modules over the very same arrays.

Nothing is merged. The base answers on with its own bits, an adapter takes the memory of its own two matrices
a layer, and a base whose weights are quantised needs no rounding of the sum.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx_lm.tuner.lora import LoRALinear

from dicast_server.adapters.document import Adapter
from dicast_server.adapters.errors import AdapterRefused
from dicast_server.models.load import LoadedModel

_SHOWN = 4


def adapted(loaded: LoadedModel, adapter: Adapter, weights: bytes) -> nn.Module:
    """The model with an adapter; the one that was loaded stays as it is.

    Args:
        loaded: the model, whose arrays are shared.
        adapter: what the adapter says of itself.
        weights: the content of its `adapters.safetensors`.

    Raises:
        AdapterRefused: it belongs to another base, or is not what it says.
    """
    check_base(loaded, adapter)
    tensors = _tensors(adapter, weights)
    _check_names(adapter, tensors)
    replaced: dict[str, nn.Module] = {}
    for path in adapter.modules:
        linear = _found(loaded.model, path, adapter)
        a, b = tensors[f"{path}.lora_a"], tensors[f"{path}.lora_b"]
        _check(adapter, path, linear, a, b)
        lora = LoRALinear.from_base(linear, adapter.rank, 0.0, adapter.scale)
        lora.lora_a, lora.lora_b = a, b
        replaced[path] = lora
    mx.eval(list(tensors.values()))
    finite = {name: mx.all(mx.isfinite(tensor)) for name, tensor in tensors.items()}
    if broken := [name for name, is_finite in finite.items() if not is_finite.item()]:
        raise AdapterRefused(f"the adapter {adapter.name} has numbers that are not finite in {_some(broken)}")
    tree = with_modules(loaded.model, replaced)
    assert isinstance(tree, nn.Module)
    return tree


def check_base(loaded: LoadedModel, adapter: Adapter) -> None:
    """Check that an adapter was made from the weights of this model.

    Raises:
        AdapterRefused: it was not; both hashes are named.
    """
    base = adapter.base
    if base.weights_hash != loaded.weights_hash:
        raise AdapterRefused(
            f"the adapter {adapter.name} was made for other weights, {base.model} ({base.weights_hash}); "
            f"these are {loaded.id} ({loaded.weights_hash})"
        )


def with_modules(tree: Any, replaced: Mapping[str, nn.Module]) -> Any:
    """A tree of modules, lists and dictionaries with others in some places, by their dotted paths.

    What lies above such a place is copied without what it holds; all else is shared.
    """
    own = replaced.get("")
    if own is not None:
        return own
    below: dict[str, dict[str, nn.Module]] = {}
    for path, module in replaced.items():
        step, _, rest = path.partition(".")
        below.setdefault(step, {})[rest] = module
    changed = copy.copy(tree)
    for step, inner in below.items():
        key: Any = int(step) if isinstance(tree, list) else step
        # A module is a dictionary of what it holds.
        changed[key] = with_modules(tree[key], inner)
    return changed


def _tensors(adapter: Adapter, weights: bytes) -> dict[str, mx.array]:
    try:
        found: Any = mx.load(io.BytesIO(weights), format="safetensors")
    except (RuntimeError, ValueError) as error:
        raise AdapterRefused(f"the weights of the adapter {adapter.name} are cut off or damaged") from error
    return dict(found)


def _check_names(adapter: Adapter, tensors: Iterable[str]) -> None:
    found = set(tensors)
    wanted = {f"{module}.{part}" for module in adapter.modules for part in ("lora_a", "lora_b")}
    if missing := sorted(wanted - found):
        raise AdapterRefused(f"the adapter {adapter.name} has no {_some(missing)}")
    if extra := sorted(found - wanted):
        raise AdapterRefused(
            f"the adapter {adapter.name} has {_some(extra)}, which none of its modules needs"
        )


def _found(model: nn.Module, path: str, adapter: Adapter) -> Any:
    """The linear layer at a path."""
    place: Any = model
    for step in path.split("."):
        if isinstance(place, list):
            place = place[int(step)] if step.isdigit() and int(step) < len(place) else None
        else:
            place = place.get(step) if isinstance(place, dict) else None
    if type(place) not in (nn.Linear, nn.QuantizedLinear):
        there = "no such layer" if place is None else f"a {type(place).__name__} there"
        raise AdapterRefused(
            f"the adapter {adapter.name} adapts the linear layer {path}, and the model has {there}"
        )
    return place


def _check(adapter: Adapter, path: str, linear: Any, a: mx.array, b: mx.array) -> None:
    outputs, inputs = linear.weight.shape
    if isinstance(linear, nn.QuantizedLinear):
        inputs = inputs * 32 // linear.bits
    for part, tensor, shape in (
        ("lora_a", a, (inputs, adapter.rank)),
        ("lora_b", b, (adapter.rank, outputs)),
    ):
        if tuple(tensor.shape) != shape:
            raise AdapterRefused(
                f"the adapter {adapter.name} of rank {adapter.rank} has {path}.{part} of the shape "
                f"{tuple(tensor.shape)}, and it must be {shape}"
            )
        if tensor.dtype != mx.float32:
            kind = str(tensor.dtype).removeprefix("mlx.core.")
            raise AdapterRefused(f"the adapter {adapter.name} has {path}.{part} in {kind}, not in float32")


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
