"""The weights of mlx-lm's dense decoders as NumPy's arrays, shared and never copied where that can be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
from mlx import nn
from mlx_lm.models import llama, qwen2, qwen3
from mlx_lm.tuner.lora import LoRALinear

from dicast_server.engine.cpu_layers import Linear, LowRank, RmsNorm, Rotation
from dicast_server.engine.layers import Attention, layers_of

_TYPES = (nn.Linear, nn.Embedding, nn.RMSNorm, LoRALinear)
"""The modules that are known here, with arrays of their own."""


def is_dense(model: nn.Module) -> bool:
    """Whether a model is one of three types, on a CPU in float32, with full attention."""
    if mx.default_device() != mx.cpu or type(model) not in (llama.Model, qwen2.Model, qwen3.Model):
        return False
    body = model.model
    return (
        all(layer == Attention() for layer in layers_of(model) or [None])
        and all(_plain(part) for part in body.modules())
        and all(_turns_halves(layer.self_attn) for layer in body.layers)
    )


def linear_of(linear: Any) -> Linear:
    """The layer's weight turned over, which the layer itself then shares, and its adapter."""
    if isinstance(linear, LoRALinear):
        scaled = np.asarray(linear.lora_b) * np.float32(linear.scale)
        return replace(linear_of(linear.linear), beside=LowRank(np.asarray(linear.lora_a), scaled))
    shared = np.asarray(linear.weight).T
    if not shared.flags.c_contiguous:
        turned = mx.contiguous(linear.weight.T)
        mx.eval(turned)
        linear.weight, shared = turned.T, np.asarray(turned)
    return Linear(shared, np.asarray(linear.bias) if "bias" in linear else None)


def norm_of(norm: Any) -> RmsNorm:
    """A norm over a module's own weight."""
    return RmsNorm(np.asarray(norm.weight), norm.eps)


def rotation_of(rope: Any, offset: int, width: int, d: int) -> Rotation:
    """A model's own rotation, read from what it makes of points at angle 0."""
    half = d // 2
    points = mx.concatenate([mx.ones((1, 1, width, half)), mx.zeros((1, 1, width, half))], axis=-1)
    turned = np.array(rope(points, offset=offset))[0, 0]
    cosines, sines = turned[:, :half], turned[:, half:]
    return Rotation(np.concatenate([cosines, cosines], axis=1), np.concatenate([-sines, sines], axis=1))


def _plain(part: Any) -> bool:
    """Whether a module holds nothing, or is of a known type and in float32: no quantisation."""
    held = [value for name, value in part.items() if isinstance(value, mx.array) and name[0] != "_"]
    return all(type(part) in _TYPES and array.dtype == mx.float32 for array in held)


def _turns_halves(attention: Any) -> bool:
    """Whether all of a head is turned, half by half."""
    keys = attention.k_proj
    keys = keys.linear if isinstance(keys, LoRALinear) else keys
    rope, d = attention.rope, keys.weight.shape[0] // attention.n_kv_heads
    return getattr(rope, "dims", None) == d and getattr(rope, "traditional", None) is False
