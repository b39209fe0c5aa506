"""Undo quantisation and half precision for a CPU, where their matrix products are slow."""

from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear


def widen(model: nn.Module) -> list[str]:
    """Make every weight float32, in place and evaluated, one module at a time.

    Returns:
        The names of modules that are quantised in a way that is not undone here; they stay as
        they are and work, slowly.
    """
    left = []
    for name, module in model.named_modules():
        wide = _dequantized(module)
        if wide is not None:
            mx.eval(wide.parameters())
            _replace(model, name, wide)
        elif "scales" in module and "weight" in module:
            left.append(name)
    for name, value in tree_flatten(model.parameters()):
        if name.rpartition(".")[0] in left or value.dtype not in (mx.float16, mx.bfloat16):
            continue
        cast = value.astype(mx.float32)
        mx.eval(cast)
        model.load_weights([(name, cast)], strict=False)
    mx.eval(model.parameters())
    return left


def _dequantized(module: nn.Module) -> nn.Module | None:
    """The module's plain counterpart with float32 weights, None if it is no quantised one."""
    # The counterparts are made small and get their weights afterwards: the shapes follow them.
    plain: nn.Module
    if isinstance(module, nn.QuantizedLinear):
        plain = nn.Linear(1, 1, bias=False)
    elif isinstance(module, nn.QuantizedEmbedding):
        plain = nn.Embedding(1, 1)
    elif isinstance(module, QuantizedSwitchLinear):
        plain = SwitchLinear(1, 1, 1, bias=False)
    else:
        return None
    plain.weight = _weight(module)
    if "bias" in module:
        plain.bias = module.bias.astype(mx.float32)
    return plain


def _weight(module: Any) -> mx.array:
    scales, biases = module.scales, module.get("biases")
    # In float32 from the start, not rounded to half precision on the way. The scales of the
    # floating-point modes are bytes and stay so.
    if biases is not None:
        scales, biases = scales.astype(mx.float32), biases.astype(mx.float32)
    options: dict[str, Any] = {"group_size": module.group_size, "bits": module.bits}
    options |= {"mode": module.mode, "dtype": mx.float32}
    spread = module.get("global_scale")
    if spread is None:
        return mx.dequantize(module.weight, scales, biases, **options)
    experts = [
        mx.dequantize(weight, scale, global_scale=one, **options)
        for weight, scale, one in zip(module.weight, scales, spread, strict=True)
    ]
    return mx.stack(experts)


def _replace(model: nn.Module, name: str, module: nn.Module) -> None:
    """Put a module in another's place, which a dotted path with list indices names."""
    *path, last = name.split(".")
    parent: Any = model
    for step in path:
        parent = parent[int(step)] if isinstance(parent, list) else parent[step]
    if isinstance(parent, list):
        parent[int(last)] = module
    else:
        setattr(parent, last, module)
