"""A model with an adapter beside its weights: a second tree of modules over the very same arrays.

Nothing is merged. The base answers on with its own bits, an adapter takes the memory of its own two matrices
a layer, and a base whose weights are quantised needs no rounding of the sum. One that brings a head is
beside the base's first layers alone.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import mlx.core as mx
import safetensors.numpy
from mlx import nn
from mlx_lm.tuner.lora import LoRALinear
from safetensors import SafetensorError

from dicast_server.adapters.document import Adapter
from dicast_server.adapters.errors import AdapterRefused
from dicast_server.adapters.file import Contents
from dicast_server.models.load import LoadedModel
from dicast_server.models.truncated import check as check_cut
from dicast_server.models.truncated import truncated
from dicast_server.readouts.pooled_head import PooledHead

_SHOWN = 4
_KINDS = (mx.float32, mx.float16, mx.bfloat16)
"""What an adapter's matrices may be stored in; all are widened to the first."""


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
    base = _base(loaded, adapter)
    tensors = _tensors(adapter, weights)
    _check_names(adapter, tensors)
    replaced: dict[str, nn.Module] = {}
    for path in adapter.modules:
        linear = _found(base, path, adapter)
        parts = f"{path}.lora_a", f"{path}.lora_b"
        _check(adapter, path, linear, tensors[parts[0]], tensors[parts[1]])
        a, b = (tensors[part].astype(mx.float32) for part in parts)
        tensors.update(zip(parts, (a, b), strict=True))
        lora = LoRALinear.from_base(linear, adapter.rank, 0.0, adapter.scale)
        lora.lora_a, lora.lora_b = a, b
        replaced[path] = lora
    mx.eval(list(tensors.values()))
    finite = {name: mx.all(mx.isfinite(tensor)) for name, tensor in tensors.items()}
    if broken := [name for name, is_finite in finite.items() if not is_finite.item()]:
        raise AdapterRefused(f"the adapter {adapter.name} has numbers that are not finite in {_some(broken)}")
    tree = with_modules(base, replaced)
    assert isinstance(tree, nn.Module)
    return tree


def head_of(loaded: LoadedModel, contents: Contents) -> PooledHead | None:
    """The head that an adapter brings, None for one without. From any thread: it touches no array of MLX's.

    Raises:
        AdapterRefused: its file is damaged, or it is no head of this model's hidden states.
    """
    adapter, name = contents.adapter, contents.adapter.name
    if adapter.head is None or contents.head is None:
        return None
    check_base(loaded, adapter)
    try:
        hidden = check_cut(loaded.model, adapter.head.layers)
        head = PooledHead.of(safetensors.numpy.load(contents.head))
    except SafetensorError as error:
        raise AdapterRefused(f"the head of the adapter {name} is cut off or damaged") from error
    except (ValueError, KeyError, TypeError) as error:
        raise AdapterRefused(f"the adapter {name} cannot be read by its head: {error}") from error
    if head.size != hidden:
        raise AdapterRefused(
            f"the head of the adapter {name} reads {head.size} numbers a token, and the model has {hidden}"
        )
    return head


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


def _base(loaded: LoadedModel, adapter: Adapter) -> nn.Module:
    """The model that an adapter is beside: the whole one, or what is below its head."""
    if adapter.head is None:
        return loaded.model
    try:
        return truncated(loaded.model, adapter.head.layers)
    except ValueError as error:
        raise AdapterRefused(f"the head of the adapter {adapter.name} cannot be read by: {error}") from error


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
        if tensor.dtype not in _KINDS:
            kind = str(tensor.dtype).removeprefix("mlx.core.")
            raise AdapterRefused(f"the adapter {adapter.name} has {path}.{part} in {kind}, not in float32")


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
