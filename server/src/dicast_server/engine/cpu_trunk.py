"""Dense decoders in float32 on a CPU: mlx-lm's modules and weights, with what MLX does slowly there avoided.

MLX computes exponentials one by one on a CPU: in attention over a long prefix they cost more than all
matrix products. Here they are a polynomial of vectorised operations. Attention goes over a prefix part by
part, so that nothing is joined or copied to rows, and rows share one product with the prefix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx_lm.models import llama, qwen2, qwen3

from dicast_server.engine.layers import Attention, AttentionView, Part, layers_of

_LOG2_E = 1 / math.log(2)
# Adding it to a float32 of magnitude below 2^22 rounds to an integer, which its low bits then hold.
_ROUNDER = 1.5 * 2**23
# 2^f for f in [-1/2, 1/2]: its Taylor series, off by 1.2e-7 of the value at most.
_COEFFICIENTS = [math.log(2) ** n / math.factorial(n) for n in range(7)]


def exp(x: mx.array) -> mx.array:
    """e^x of float32 for x <= 88, to 2e-7 (1 + |x|) of the value; below -83 about 1e-36 and not less.

    2^(whole + fraction): the fraction by a polynomial, the whole number added to the exponent's bits.
    """
    power = mx.maximum(x * _LOG2_E, -120.0)
    rounded = power + _ROUNDER
    fraction = power - (rounded - _ROUNDER)
    result = mx.array(_COEFFICIENTS[-1], mx.float32)
    for coefficient in reversed(_COEFFICIENTS[:-1]):
        result = result * fraction + coefficient
    return (result.view(mx.int32) + rounded.view(mx.int32) * 2**23).view(mx.float32)


def silu(x: mx.array) -> mx.array:
    """X / (1 + e^-x)."""
    return x * mx.reciprocal(1.0 + exp(mx.minimum(-x, 80.0)))


class CpuTrunk:
    """The trunk of a llama, qwen2 or qwen3 model."""

    def __init__(self, model: nn.Module) -> None:
        self._body = model.model

    @classmethod
    def of(cls, model: nn.Module) -> CpuTrunk | None:
        """The trunk of a model that it fits: one of three types, in float32, with full attention."""
        if mx.default_device() != mx.cpu or type(model) not in (llama.Model, qwen2.Model, qwen3.Model):
            return None
        plain = all(layer == Attention() for layer in layers_of(model) or [None])
        weights = [module.weight for module in model.modules() if isinstance(module, nn.Linear)]
        if not plain or any(weight.dtype != mx.float32 for weight in weights):
            return None
        quantized = (nn.QuantizedLinear, nn.QuantizedEmbedding)
        return None if any(isinstance(module, quantized) for module in model.modules()) else cls(model)

    def __call__(self, tokens: mx.array, cache: Sequence[Any] | None = None) -> mx.array:
        """Hidden states (rows, width, d) of token ids (rows, width) behind what the views show.

        Over mlx-lm's own caches, which have no parts, it is mlx-lm's trunk.
        """
        views = cache or [None] * len(self._body.layers)
        if not all(view is None or isinstance(view, AttentionView) for view in views):
            hidden: mx.array = self._body(tokens, cache=cache)
            return hidden
        hidden = self._body.embed_tokens(tokens)
        for layer, view in zip(self._body.layers, views, strict=True):
            hidden = hidden + _attention(layer.self_attn, layer.input_layernorm(hidden), view)
            mlp, normed = layer.mlp, layer.post_attention_layernorm(hidden)
            hidden = hidden + mlp.down_proj(silu(mlp.gate_proj(normed)) * mlp.up_proj(normed))
        result: mx.array = self._body.norm(hidden)
        return result


def _attention(module: Any, x: mx.array, view: AttentionView | None) -> mx.array:
    rows, width, _ = x.shape
    heads, groups = module.n_kv_heads, module.n_heads // module.n_kv_heads
    queries = module.q_proj(x).reshape(rows, width, module.n_heads, -1)
    keys = module.k_proj(x).reshape(rows, width, heads, -1)
    values = module.v_proj(x).reshape(rows, width, heads, -1).transpose(0, 2, 1, 3)
    if "q_norm" in module:
        queries, keys = module.q_norm(queries), module.k_norm(keys)
    offset = view.offset if view is not None else 0
    queries = module.rope(queries.transpose(0, 2, 1, 3), offset=offset) * module.scale
    keys = module.rope(keys.transpose(0, 2, 1, 3), offset=offset)
    if view is not None:
        view.add(keys, values)
    # Query heads that share a key head are rows of one product: (rows, key heads, groups * width, d).
    queries = queries.reshape(rows, heads, groups * width, -1)
    attended = _attend(queries, view.seen if view is not None else [], keys, values, width)
    attended = attended.reshape(rows, heads * groups, width, -1).transpose(0, 2, 1, 3)
    result: mx.array = module.o_proj(attended.reshape(rows, width, -1))
    return result


def _attend(
    queries: mx.array, prefix: Sequence[Part], keys: mx.array, values: mx.array, width: int
) -> mx.array:
    """Softmax attention over the parts of a prefix and, causally, over the rows' own tokens.

    Queries, own keys and values are (rows, key heads, tokens, d); the parts have one row.
    """
    rows, heads, tokens, d = queries.shape
    own = queries @ keys.swapaxes(-1, -2)
    if width > 1:
        own = own + mx.tile(_later(width), (tokens // width, 1))
    if not prefix:
        weights = exp(own - mx.max(own, axis=-1, keepdims=True))
        return (weights @ values) * mx.reciprocal(mx.sum(weights, axis=-1, keepdims=True))
    # All rows against one prefix: (key heads, rows * tokens, d).
    together = queries.transpose(1, 0, 2, 3).reshape(heads, rows * tokens, d)
    scores = [together @ part_keys[0].swapaxes(-1, -2) for part_keys, _ in prefix]
    tops = [mx.max(score, axis=-1, keepdims=True) for score in scores]
    own_top = mx.max(own, axis=-1, keepdims=True).transpose(1, 0, 2, 3).reshape(heads, rows * tokens, 1)
    top = own_top
    for part_top in tops:
        top = mx.maximum(top, part_top)
    shares = [exp(score - top) for score in scores]
    attended, total = mx.array(0.0), mx.array(0.0)
    for share, (_, part_values) in zip(shares, prefix, strict=True):
        attended = attended + share @ part_values[0]
        total = total + mx.sum(share, axis=-1, keepdims=True)
    weights = exp(own - _apart(top, rows))
    result = _apart(attended, rows) + weights @ values
    return result * mx.reciprocal(_apart(total, rows) + mx.sum(weights, axis=-1, keepdims=True))


def _apart(together: mx.array, rows: int) -> mx.array:
    """(key heads, rows * tokens, n) as (rows, key heads, tokens, n)."""
    heads, merged, n = together.shape
    return together.reshape(heads, rows, merged // rows, n).transpose(1, 0, 2, 3)


def _later(width: int) -> mx.array:
    """What hides later tokens: 0 on and below the diagonal, -1e30 above; (width, width)."""
    return mx.triu(mx.full((width, width), -1e30), 1)
