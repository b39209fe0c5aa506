"""A layer of a dense decoder that learns: forwards as `cpu_trunk` runs it, and backwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dicast_server.engine.cpu_layers import Array, RmsNorm, Rotation
from dicast_server.engine.learning.blocks import (
    Attended,
    GatedMlp,
    Gradients,
    LowRankLinear,
    Weights,
    norm_backward,
    turned,
    turned_back,
)


@dataclass(frozen=True, slots=True)
class Kept:
    """What the backward pass of a layer needs."""

    before: Array
    x: Array
    queries: Array
    keys: Array
    attended: Attended
    output: Array
    between: Array
    inner: Array
    gated: tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """Attention and a gated MLP, each behind a norm and beside what they change.

    Query and key norms are those of qwen3; None where there are none.
    """

    before_attention: RmsNorm
    queries: LowRankLinear
    keys: LowRankLinear
    values: LowRankLinear
    query_norm: RmsNorm | None
    key_norm: RmsNorm | None
    output: LowRankLinear
    before_mlp: RmsNorm
    mlp: GatedMlp
    key_heads: int
    d: int
    scale: float

    def forward(self, hidden: Array, mask: Array, rotation: Rotation, learned: Weights) -> tuple[Array, Kept]:
        """Of hidden states (tokens, width): those behind the layer, and what its backward pass needs."""
        tokens = len(hidden)
        x = self.before_attention(hidden)
        queries = self.queries.forward(x, learned).reshape(tokens, self.key_heads, -1, self.d)
        keys = self.keys.forward(x, learned).reshape(tokens, self.key_heads, self.d)
        values = self.values.forward(x, learned).reshape(tokens, self.key_heads, self.d)
        scaled = turned(rotation, queries if self.query_norm is None else self.query_norm(queries))
        scaled *= np.float32(self.scale)
        attended = Attended.of(
            np.ascontiguousarray(scaled.transpose(1, 2, 0, 3)),
            np.ascontiguousarray(
                turned(rotation, keys if self.key_norm is None else self.key_norm(keys)).swapaxes(0, 1)
            ),
            np.ascontiguousarray(values.swapaxes(0, 1)),
            mask,
        )
        output = attended.output.reshape(tokens, -1)
        between = hidden + self.output.forward(output, learned)
        inner = self.before_mlp(between)
        added, gated = self.mlp.forward(inner, learned)
        added += between
        return added, Kept(hidden, x, queries, keys, attended, output, between, inner, gated)

    def backward(
        self, given: Array, kept: Kept, rotation: Rotation, learned: Weights, gradients: Gradients
    ) -> Array:
        """The gradient by the hidden states before the layer, from that by those behind it."""
        tokens = len(given)
        by_inner = self.mlp.backward(given, kept.inner, kept.gated, learned, gradients)
        between = norm_backward(self.before_mlp, by_inner, kept.between)
        between += given
        by_output = self.output.backward(between, kept.output, learned, gradients)
        by_queries, by_keys, by_values = kept.attended.backward(
            by_output.reshape(tokens, self.key_heads, -1, self.d)
        )
        queries = turned_back(rotation, np.ascontiguousarray(by_queries.transpose(2, 0, 1, 3)))
        queries *= np.float32(self.scale)
        keys = turned_back(rotation, np.ascontiguousarray(by_keys.swapaxes(0, 1)))
        if self.query_norm is not None and self.key_norm is not None:
            queries = norm_backward(self.query_norm, queries, kept.queries)
            keys = norm_backward(self.key_norm, keys, kept.keys)
        values = np.ascontiguousarray(by_values.swapaxes(0, 1)).reshape(tokens, -1)
        back = self.queries.backward(queries.reshape(tokens, -1), kept.x, learned, gradients)
        back += self.keys.backward(keys.reshape(tokens, -1), kept.x, learned, gradients)
        back += self.values.backward(values, kept.x, learned, gradients)
        before = norm_backward(self.before_attention, back, kept.before)
        before += between
        return before
