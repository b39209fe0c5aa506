"""Dense decoders in float32 on a CPU: mlx-lm's weights, run in NumPy on all cores.

MLX takes elementwise operations one by one through fresh memory and on one thread there, which costs more
than all matrix products. Here each thread takes some of the tokens through the layers, with a BLAS of one
thread; they meet where attention needs the keys of the others. Rows lie one behind the other, unpadded.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from mlx import nn
from threadpoolctl import threadpool_limits

from dicast_server.engine.cpu_layers import Array, Linear, Mlp, RmsNorm, Rotation, Span, attend
from dicast_server.engine.cpu_weights import is_dense, linear_of, norm_of, rotation_of
from dicast_server.engine.layers import AttentionView

_LEAST_TOKENS = 8
"""Tokens that are worth a thread of their own."""


class CpuTrunk:
    """The trunk of a llama, qwen2 or qwen3 model."""

    def __init__(self, model: nn.Module, threads: int, base: CpuTrunk | None = None) -> None:
        """Share the model's weights. `threads` run a forward, and its last bits depend on their number.

        `base` is the trunk of the same model without its adapter: they run in turn, on the same threads.
        """
        self._body = model.model
        self._embeddings = np.asarray(self._body.embed_tokens.weight)
        self._layers = [_layer(layer) for layer in self._body.layers]
        self._norm = norm_of(self._body.norm)
        self._threads = threads
        self._others: ThreadPoolExecutor = (
            ThreadPoolExecutor(max(1, threads - 1), thread_name_prefix="dicast-cpu")
            if base is None
            else base._others
        )
        # NumPy's BLAS, which is not MLX's: threads of its own would only stand in the way of ours.
        threadpool_limits(1, user_api="blas")

    @classmethod
    def of(cls, model: nn.Module, threads: int, base: CpuTrunk | None = None) -> CpuTrunk | None:
        """The trunk of a model that it fits: one of three types, in float32, with full attention."""
        return cls(model, threads, base) if is_dense(model) else None

    def __call__(
        self,
        rows: Sequence[Sequence[int]],
        views: Sequence[AttentionView] | None = None,
        at: Sequence[tuple[int, int]] | None = None,
    ) -> mx.array:
        """Hidden states (places, d) of rows of token ids, behind what the views show.

        The places are those of `at`, each a row and a position in it; by default the end of each row. What
        a single row adds, the views keep.
        """
        views = views or [AttentionView([], 0, len(rows), None) for _ in self._layers]
        lengths = [len(row) for row in rows]
        places = np.concatenate([np.arange(length) for length in lengths])
        rotation = rotation_of(
            self._body.layers[0].self_attn.rope, views[0].offset, max(lengths), self._layers[0].d
        )
        hidden = self._embeddings[np.fromiter(itertools.chain(*rows), np.intp)]
        pieces = [
            _Piece(hidden[start:end], start, end, rotation.at(places[start:end]), _spans(lengths, start, end))
            for start, end in itertools.pairwise(_bounds(len(places), self._threads))
        ]
        stages = [
            _Stage.of(layer, view, len(places)) for layer, view in zip(self._layers, views, strict=True)
        ]
        self._go(pieces, stages)
        if len(rows) == 1:
            for stage, view in zip(stages, views, strict=True):
                view.add(mx.array(stage.keys[None]), mx.array(stage.values[None]))
        if at is None:
            at = [(row, length - 1) for row, length in enumerate(lengths)]
        starts = list(itertools.accumulate(lengths, initial=0))
        read = np.array([starts[row] + position for row, position in at], np.intp)
        return mx.array(self._norm(hidden[read]))

    def _go(self, pieces: Sequence[_Piece], stages: Sequence[_Stage]) -> None:
        """Take every piece through all layers, each on a thread."""
        meeting = threading.Barrier(len(pieces))
        others: list[Future[None]] = []
        try:
            for piece in pieces[1:]:
                others.append(self._others.submit(piece.go, stages, meeting))
            pieces[0].go(stages, meeting)
        except threading.BrokenBarrierError:
            # The one that failed knows why; those that waited for it do not.
            for failure in (other.exception() for other in others):
                if failure is not None and not isinstance(failure, threading.BrokenBarrierError):
                    raise failure from None
            raise
        except BaseException:
            meeting.abort()
            raise
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


@dataclass(frozen=True, slots=True)
class _Stage:
    """A layer in one forward: keys and values of the prefix's parts, and of the forward's own tokens.

    All are (key heads, tokens, d).
    """

    layer: _Layer
    prefix: Sequence[tuple[Array, Array]]
    keys: Array
    values: Array

    @classmethod
    def of(cls, layer: _Layer, view: AttentionView, tokens: int) -> _Stage:
        """The stage behind what a view shows, with room for so many tokens."""
        prefix = [(np.asarray(part[0])[0], np.asarray(part[1])[0]) for part in view.seen]
        keys = np.empty((layer.key_heads, tokens, layer.d), np.float32)
        return cls(layer, prefix, keys, np.empty_like(keys))


@dataclass(slots=True)
class _Piece:
    """The tokens from `start` to `end` of a forward on their way through the layers.

    `hidden` is (tokens, d).
    """

    hidden: Array
    start: int
    end: int
    rotation: Rotation
    spans: Sequence[Span]

    def go(self, stages: Sequence[_Stage], meeting: threading.Barrier) -> None:
        """Go through all layers, and meet the other pieces where their keys and values are needed."""
        try:
            # What is not finite comes out as such, and its question is refused.
            with np.errstate(all="ignore"):
                for stage in stages:
                    queries = self._project(stage)
                    meeting.wait()
                    self._attend(stage, queries)
                    self.hidden += stage.layer.mlp(stage.layer.before_mlp(self.hidden))
        except BaseException:
            meeting.abort()
            raise

    def _project(self, stage: _Stage) -> Array:
        """Queries as attention takes them; keys and values go to those of the others."""
        layer, tokens = stage.layer, len(self.hidden)
        x = layer.before_attention(self.hidden)
        queries = layer.queries(x).reshape(tokens, layer.key_heads, -1, layer.d)
        keys = layer.keys(x).reshape(tokens, layer.key_heads, layer.d)
        if layer.query_norm is not None and layer.key_norm is not None:
            queries, keys = layer.query_norm(queries), layer.key_norm(keys)
        queries *= layer.scale
        turned = np.empty((layer.key_heads, queries.shape[2], tokens, layer.d), np.float32)
        self.rotation.turn(queries, turned.transpose(2, 0, 1, 3))
        self.rotation.turn(keys, stage.keys[:, self.start : self.end].swapaxes(0, 1))
        stage.values[:, self.start : self.end] = layer.values(x).reshape(keys.shape).swapaxes(0, 1)
        return turned

    def _attend(self, stage: _Stage, queries: Array) -> None:
        attended = attend(queries, stage.prefix, stage.keys, stage.values, self.spans)
        self.hidden += stage.layer.output(attended.reshape(len(self.hidden), -1))


def _bounds(tokens: int, threads: int) -> list[int]:
    """Cut a forward evenly, for as many threads as pay."""
    count = max(1, min(threads, tokens // _LEAST_TOKENS))
    return [tokens * place // count for place in range(count + 1)]


def _spans(lengths: Sequence[int], start: int, end: int) -> list[Span]:
    """The rows of a forward, as far as they lie between two of its tokens."""
    bounds = itertools.pairwise(itertools.accumulate(lengths, initial=0))
    return [
        Span(first, max(first, start), min(last, end))
        for first, last in bounds
        if first < end and last > start
    ]


def _layer(layer: Any) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    keys = linear_of(attention.k_proj)
    return _Layer(
        before_attention=norm_of(layer.input_layernorm),
        queries=linear_of(attention.q_proj),
        keys=keys,
        values=linear_of(attention.v_proj),
        query_norm=norm_of(attention.q_norm) if "q_norm" in attention else None,
        key_norm=norm_of(attention.k_norm) if "k_norm" in attention else None,
        output=linear_of(attention.o_proj),
        before_mlp=norm_of(layer.post_attention_layernorm),
        mlp=Mlp(linear_of(mlp.gate_proj), linear_of(mlp.up_proj), linear_of(mlp.down_proj)),
        key_heads=attention.n_kv_heads,
        d=keys.weight.shape[1] // attention.n_kv_heads,
        scale=attention.scale,
    )
