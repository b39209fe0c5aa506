"""The first layers of a dense decoder as a model of its own, over the very same arrays."""

from __future__ import annotations

import copy

import mlx.core as mx
from mlx import nn
from mlx_lm.models import llama, qwen2, qwen3


def truncated(model: nn.Module, layers: int) -> nn.Module:
    """A model's first layers below a final norm whose weight is ones, so that each token counts alike.

    The model stays as it is. What its head makes of such hidden states means nothing.

    Args:
        model: a llama, qwen2 or qwen3 without sliding windows.
        layers: how many are kept.

    Raises:
        ValueError: it is another model, or has fewer layers.
    """
    check(model, layers)
    shorter, body = copy.copy(model), copy.copy(model.model)
    weight = body.norm.weight
    norm = nn.RMSNorm(weight.shape[0], body.norm.eps)
    norm.weight = mx.ones(weight.shape, weight.dtype)
    mx.eval(norm.weight)
    body.layers, body.norm = body.layers[:layers], norm
    shorter.model = body
    return shorter


def check(model: nn.Module, layers: int) -> int:
    """The size of the hidden states of a model that `truncated` would take; raises as that does."""
    # Others scale their hidden states, or look up the kinds of their layers by number.
    if type(model) not in (llama.Model, qwen2.Model, qwen3.Model) or any(
        getattr(layer, "use_sliding", False) for layer in model.layers
    ):
        raise ValueError("only a llama, qwen2 or qwen3 with full attention can be cut to its first layers")
    if not 1 <= layers <= len(model.layers):
        raise ValueError(f"the model has {len(model.layers)} layers, and {layers} are to be kept")
    return int(model.model.norm.weight.shape[0])
