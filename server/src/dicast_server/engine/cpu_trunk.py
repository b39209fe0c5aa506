"""Dense decoders in float32 on a CPU: mlx-lm's weights, run in NumPy on all cores.

MLX takes elementwise operations one by one through fresh memory and on one thread there, which costs more
than all matrix products. Here each thread takes some tokens of every row through the layers, with a BLAS
of one thread; they meet where attention needs the keys of the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from mlx import nn
from mlx_lm.models import llama, qwen2, qwen3
from threadpoolctl import threadpool_limits

from dicast_server.engine.cpu_layers import Array, Linear, Mlp, RmsNorm, Rotation, attend
from dicast_server.engine.layers import Attention, AttentionView, layers_of

_LEAST_TOKENS = 8
"""Tokens, of all rows, that are worth a thread of their own."""


class CpuTrunk:
    """The trunk of a llama, qwen2 or qwen3 model."""

    def __init__(self, model: nn.Module, threads: int) -> None:
        """Share the model's weights. `threads` run a forward, and its last bits depend on their number."""
        self._body = model.model
        self._embeddings = np.asarray(self._body.embed_tokens.weight)
        self._layers = [_layer(layer) for layer in self._body.layers]
        self._norm = _norm(self._body.norm)
        self._threads = threads
        self._others = ThreadPoolExecutor(max(1, threads - 1), thread_name_prefix="dicast-cpu")
        # NumPy's BLAS, which is not MLX's: threads of its own would only stand in the way of ours.
        threadpool_limits(1, user_api="blas")

    @classmethod
    def of(cls, model: nn.Module, threads: int) -> CpuTrunk | None:
        """The trunk of a model that it fits: one of three types, in float32, with full attention."""
        if mx.default_device() != mx.cpu or type(model) not in (llama.Model, qwen2.Model, qwen3.Model):
            return None
        body = model.model
        fits = (
            all(layer == Attention() for layer in layers_of(model) or [None])
            and all(_plain(part) for part in body.modules())
            and all(_turns_halves(layer.self_attn) for layer in body.layers)
        )
        return cls(model, threads) if fits else None

    def __call__(self, tokens: mx.array, cache: Sequence[Any] | None = None) -> mx.array:
        """Hidden states (rows, width, d) of token ids (rows, width) behind what the views show.

        Over mlx-lm's own caches, which have no parts, it is mlx-lm's trunk.
        """
        views = cache or [None] * len(self._layers)
        if not all(view is None or isinstance(view, AttentionView) for view in views):
            hidden: mx.array = self._body(tokens, cache=cache)
            return hidden
        ids = np.array(tokens)
        rows, width = tokens.shape
        offset = views[0].offset if views[0] is not None else 0
        rotation = _rotation(self._body.layers[0].self_attn.rope, offset, width, self._layers[0].d)
        pieces = [
            _Piece(self._embeddings[ids[:, start:end]], start, end, rotation.of(start, end))
            for start, end in _spans(rows, width, self._threads)
        ]
        for layer, view in zip(self._layers, views, strict=True):
            self._run(layer, view, pieces)
        return mx.array(self._norm(np.concatenate([piece.hidden for piece in pieces], axis=1)))

    def _run(self, layer: _Layer, view: AttentionView | None, pieces: Sequence[_Piece]) -> None:
        """Take all pieces through a layer."""
        rows, width = pieces[0].hidden.shape[0], pieces[-1].end
        keys = np.empty((rows, layer.key_heads, width, layer.d), np.float32)
        values = np.empty_like(keys)
        prefix = [(np.asarray(part[0])[0], np.asarray(part[1])[0]) for part in view.seen] if view else []
        self._each(pieces, lambda piece: piece.project(layer, keys, values))
        self._each(pieces, lambda piece: piece.finish(layer, prefix, keys, values))
        if view is not None:
            view.add(mx.array(keys), mx.array(values))

    def _each(self, pieces: Sequence[_Piece], work: Callable[[_Piece], None]) -> None:
        """Do some work on every piece, each on a thread."""

        def quietly(piece: _Piece) -> None:
            # What is not finite comes out as such, and its question is refused.
            with np.errstate(all="ignore"):
                work(piece)

        others = [self._others.submit(quietly, piece) for piece in pieces[1:]]
        quietly(pieces[0])
        for other in others:
            other.result()


@dataclass(frozen=True, slots=True)
class _Layer:
    before_attention: RmsNorm
    queries: Linear
    keys: Linear
    values: Linear
    query_norm: RmsNorm | None
    key_norm: RmsNorm | None
    output: Linear
    before_mlp: RmsNorm
    mlp: Mlp
    key_heads: int
    d: int
    scale: float


@dataclass(slots=True)
class _Piece:
    """The tokens from `start` to `end` of every row on their way through the layers.

    `hidden` is (rows, end - start, d), `queries` as attention takes them.
    """

    hidden: Array
    start: int
    end: int
    rotation: Rotation
    queries: Array | None = None

    def project(self, layer: _Layer, keys: Array, values: Array) -> None:
        """Take the queries, and write keys and values to those of all, (rows, key heads, width, d)."""
        rows, width, inner = self.hidden.shape
        x = layer.before_attention(self.hidden).reshape(-1, inner)
        own_queries = layer.queries(x).reshape(rows, width, layer.key_heads, -1, layer.d)
        own_keys = layer.keys(x).reshape(rows, width, layer.key_heads, layer.d)
        if layer.query_norm is not None and layer.key_norm is not None:
            own_queries, own_keys = layer.query_norm(own_queries), layer.key_norm(own_keys)
        own_queries *= layer.scale
        groups = own_queries.shape[3]
        self.queries = np.empty((layer.key_heads, rows, groups, width, layer.d), np.float32)
        self.rotation.turn(own_queries, self.queries.transpose(1, 3, 0, 2, 4))
        self.rotation.turn(own_keys, keys[:, :, self.start : self.end].swapaxes(1, 2))
        own_values = layer.values(x).reshape(own_keys.shape)
        values[:, :, self.start : self.end] = own_values.swapaxes(1, 2)

    def finish(
        self, layer: _Layer, prefix: Sequence[tuple[Array, Array]], keys: Array, values: Array
    ) -> None:
        """Attend and go through the rest of the layer."""
        assert self.queries is not None
        rows, width, inner = self.hidden.shape
        attended = attend(self.queries, prefix, keys[:, :, : self.end], values[:, :, : self.end])
        flat = self.hidden.reshape(-1, inner)
        flat += layer.output(attended.reshape(rows * width, -1))
        flat += layer.mlp(layer.before_mlp(flat))


def _spans(rows: int, width: int, threads: int) -> list[tuple[int, int]]:
    """Cut the tokens of each row evenly, for as many threads as pay."""
    count = max(1, min(threads, width, rows * width // _LEAST_TOKENS))
    bounds = [width * place // count for place in range(count + 1)]
    return list(itertools.pairwise(bounds))


def _plain(part: Any) -> bool:
    """Whether a module holds nothing, or is of a known type and in float32: no adapter, no quantisation."""
    held = [value for name, value in part.items() if isinstance(value, mx.array) and name[0] != "_"]
    return all(
        type(part) in (nn.Linear, nn.Embedding, nn.RMSNorm) and array.dtype == mx.float32 for array in held
    )


def _turns_halves(attention: Any) -> bool:
    """Whether all of a head is turned, half by half."""
    rope, d = attention.rope, attention.k_proj.weight.shape[0] // attention.n_kv_heads
    return getattr(rope, "dims", None) == d and getattr(rope, "traditional", None) is False


def _rotation(rope: Any, offset: int, width: int, d: int) -> Rotation:
    """A model's own rotation, read from what it makes of points at angle 0."""
    half = d // 2
    points = mx.concatenate([mx.ones((1, 1, width, half)), mx.zeros((1, 1, width, half))], axis=-1)
    turned = np.array(rope(points, offset=offset))[0, 0]
    cosines, sines = turned[:, :half], turned[:, half:]
    return Rotation(np.concatenate([cosines, cosines], axis=1), np.concatenate([-sines, sines], axis=1))


def _layer(layer: Any) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    keys = _linear(attention.k_proj)
    return _Layer(
        before_attention=_norm(layer.input_layernorm),
        queries=_linear(attention.q_proj),
        keys=keys,
        values=_linear(attention.v_proj),
        query_norm=_norm(attention.q_norm) if "q_norm" in attention else None,
        key_norm=_norm(attention.k_norm) if "k_norm" in attention else None,
        output=_linear(attention.o_proj),
        before_mlp=_norm(layer.post_attention_layernorm),
        mlp=Mlp(_linear(mlp.gate_proj), _linear(mlp.up_proj), _linear(mlp.down_proj)),
        key_heads=attention.n_kv_heads,
        d=keys.weight.shape[1] // attention.n_kv_heads,
        scale=attention.scale,
    )


def _linear(linear: Any) -> Linear:
    """The layer's weight turned over, which the layer itself then shares."""
    turned = mx.contiguous(linear.weight.T)
    mx.eval(turned)
    linear.weight = turned.T
    return Linear(np.asarray(turned), np.asarray(linear.bias) if "bias" in linear else None)


def _norm(norm: Any) -> RmsNorm:
    return RmsNorm(np.asarray(norm.weight), norm.eps)
