"""Random adapters for tiny models, as arrays and as folders."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import made_adapters
import mlx.core as mx
import pooled_heads
import safetensors.numpy
from mlx import nn

from dicast_server.adapters import file
from dicast_server.adapters.document import Adapter, Base, Description, TunedFor
from dicast_server.models.load import LoadedModel
from dicast_server.models.truncated import truncated

KEYS = (
    *(f"self_attn.{name}_proj" for name in "qkvo"),
    *(f"mlp.{name}_proj" for name in ("gate", "up", "down")),
)


def modules_of(model: nn.Module, keys: Sequence[str] = KEYS) -> tuple[str, ...]:
    """The full paths of the linear layers that are called so."""
    linear = [
        path for path, module in model.named_modules() if type(module) in (nn.Linear, nn.QuantizedLinear)
    ]
    return tuple(sorted(path for path in linear if path.endswith(tuple(keys))))


def tensors_of(
    model: nn.Module, modules: Sequence[str], rank: int, seed: int = 0, size: float = 0.3
) -> dict[str, mx.array]:
    """Random pairs, evaluated."""
    keys = iter(mx.random.split(mx.random.key(seed), 2 * len(modules)))
    linears = dict(model.named_modules())
    tensors = {}
    for module in modules:
        outputs, inputs = linears[module].weight.shape
        if isinstance(linears[module], nn.QuantizedLinear):
            inputs = inputs * 32 // linears[module].bits
        tensors[f"{module}.lora_a"] = size * mx.random.normal((inputs, rank), key=next(keys))
        tensors[f"{module}.lora_b"] = size * mx.random.normal((rank, outputs), key=next(keys))
    mx.eval(tensors)
    return tensors


def content(tensors: Mapping[str, mx.array]) -> bytes:
    """The content of an `adapters.safetensors`."""
    written = io.BytesIO()
    mx.save_safetensors(written, dict(tensors))
    return written.getvalue()


def base_of(loaded: LoadedModel, **fields: Any) -> Base:
    """What a model is as an adapter's base."""
    known: dict[str, Any] = {
        "model": loaded.id,
        "weights_hash": loaded.weights_hash,
        "quantization": loaded.quantization,
        "template_hash": loaded.frame.fingerprint,
        "layers": len(loaded.model.layers),
    }
    return made_adapters.base(**{**known, **fields})


def description_of(loaded: LoadedModel, **fields: Any) -> Description:
    """An adapter of a model, of rank 4 in all linear layers unless told."""
    known = {"base": base_of(loaded), "modules": modules_of(loaded.model)}
    return made_adapters.description(**{**known, **fields})


def write(folder: Path, loaded: LoadedModel, seed: int = 0, size: float = 0.3, **fields: Any) -> Adapter:
    """A random adapter in a folder of its own."""
    described = description_of(loaded, **fields)
    tensors = tensors_of(loaded.model, described.modules, described.rank, seed, size)
    return file.write(folder, described, content(tensors))


def write_pooled(
    folder: Path,
    loaded: LoadedModel,
    tuned_for: TunedFor,
    *,
    layers: int = 1,
    head_rank: int = 3,
    seed: int = 0,
    size: float = 0.3,
    dtype: mx.Dtype = mx.float32,
    **fields: Any,
) -> Adapter:
    """A random adapter of the first layers, with a random head above them.

    `tuned_for` is the pooled readout's, `dtype` that of the matrices in the file.
    """
    below = truncated(loaded.model, layers)
    described = description_of(loaded, modules=modules_of(below), tuned_for=tuned_for, **fields)
    tensors = tensors_of(below, described.modules, described.rank, seed, size)
    head = pooled_heads.tensors(loaded.model.model.norm.weight.shape[0], head_rank, seed)
    content_of_head = safetensors.numpy.save({name: each.astype("float32") for name, each in head.items()})
    stored = {name: tensor.astype(dtype) for name, tensor in tensors.items()}
    return file.write(folder, described, content(stored), (layers, content_of_head))


def of(loaded: LoadedModel, seed: int = 0, **fields: Any) -> tuple[Adapter, bytes]:
    """A random adapter in memory."""
    described = description_of(loaded, **fields)
    weights = content(tensors_of(loaded.model, described.modules, described.rank, seed))
    return Adapter.of(described, "3" * 64), weights


def loaded(model: nn.Module, **fields: Any) -> LoadedModel:
    """A model without a tokenizer, as it would be loaded."""
    known: dict[str, Any] = {
        "id": "tiny",
        "family": "llama",
        "model": model,
        "frames": _NoFrames(),
        "context": 512,
        "parameters": 1000,
        "weights_hash": "a" * 64,
        "quantization": "float32",
        "source": "tiny",
    }
    return LoadedModel(**{**known, **fields})


class _NoFrames:
    fingerprint = "1" * 64

    def of(self) -> Any:
        """Something with a fingerprint."""
        return self
