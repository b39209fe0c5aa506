"""Learning in NumPy on a CPU: the dense decoders that `cpu_trunk` runs, some lessons at a time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from mlx import nn
from threadpoolctl import threadpool_limits

from dicast_server.engine.cpu_layers import Array, Rotation
from dicast_server.engine.cpu_weights import linear_of, norm_of, rotation_of
from dicast_server.engine.learning.blocks import GatedMlp, LowRankLinear, Weights, norm_backward
from dicast_server.engine.learning.decoder import DecoderLayer, Kept
from dicast_server.engine.learning.lesson import Lesson
from dicast_server.engine.learning.reading import Read, gradient, read

KEPT_TOKENS = 1024
"""The most tokens of a lesson whose layers keep all that they need on the way back.

Of SmolLM2 that is 64 MiB a layer, more than half of it attention's.
"""
_POSITIONS = 512


class DenseLearner:
    """Learns low-rank weights of the upper layers of a llama, qwen2 or qwen3 model in float32.

    A thread takes a lesson through all layers, with a BLAS of one thread, so that what comes out depends on
    no thread. Layers below the lowest that learns give the same for a lesson each time, which is kept.
    """

    def __init__(self, model: nn.Module, layers: int, scale: float, threads: int, kept_bytes: int) -> None:
        body = model.model
        self._first = len(body.layers) - layers
        self._layers = [
            _layer(layer, f"model.layers.{index}" if index >= self._first else "", scale)
            for index, layer in enumerate(body.layers)
        ]
        self._rope = body.layers[0].self_attn.rope
        self._rotations = rotation_of(self._rope, 0, _POSITIONS, self._layers[0].d)
        self._norm = norm_of(body.norm)
        self._embeddings = np.asarray(body.embed_tokens.weight)
        head = getattr(model, "lm_head", None) or body.embed_tokens
        self._head = np.asarray(head.weight)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="dicast-learn")
        self._kept: dict[Lesson, Array] = {}
        self._most_bytes, self.kept_bytes = kept_bytes, 0
        self._keeping, self._long = threading.Lock(), threading.Lock()
        threadpool_limits(1, user_api="blas")

    def learn(self, lessons: Sequence[Lesson], learned: Weights) -> tuple[list[Read], dict[str, Array]]:
        """What each example is read as, and the gradients of the sum of all losses."""
        self._reach(lessons)
        total: dict[str, Array] = {}
        found: list[Read] = []
        # In the lessons' order, whichever is done first: sums of floats depend on it.
        for reads, gradients in self._pool.map(lambda lesson: self._learn(lesson, learned), lessons):
            found += reads
            for name, by in gradients.items():
                if name in total:
                    total[name] += by
                else:
                    total[name] = by
        return found, total

    def read(self, lessons: Sequence[Lesson], learned: Weights) -> list[Read]:
        """What each example is read as."""
        self._reach(lessons)
        done = self._pool.map(lambda lesson: self._read(lesson, learned), lessons)
        return [each for reads in done for each in reads]

    def _read(self, lesson: Lesson, learned: Weights) -> list[Read]:
        with self._room(lesson), np.errstate(all="ignore"):
            rotation, mask = self._rotations.at(lesson.places), lesson.mask
            hidden = self._below(lesson, mask, rotation)
            for layer in self._layers[self._first :]:
                hidden, _ = layer.forward(hidden, mask, rotation, learned)
            return read(self._norm(hidden[lesson.ends]) @ self._head.T, lesson.examples)

    def _learn(self, lesson: Lesson, learned: Weights) -> tuple[list[Read], dict[str, Array]]:
        with self._room(lesson), np.errstate(all="ignore"):
            rotation, mask = self._rotations.at(lesson.places), lesson.mask
            hidden = self._below(lesson, mask, rotation)
            # Of a long lesson a layer keeps what it began with, and is run once more on the way back.
            kept: list[Kept | Array] = []
            for layer in self._layers[self._first :]:
                before = hidden
                hidden, needed = layer.forward(hidden, mask, rotation, learned)
                kept.append(before if _is_long(lesson) else needed)
            ends = hidden[lesson.ends]
            logits = self._norm(ends) @ self._head.T
            by_ends = gradient(logits, lesson.examples) @ self._head
            given = np.zeros_like(hidden)
            given[lesson.ends] = norm_backward(self._norm, by_ends, ends)
            gradients: dict[str, Array] = {}
            for layer in reversed(self._layers[self._first :]):
                last = kept.pop()
                if not isinstance(last, Kept):
                    _, last = layer.forward(last, mask, rotation, learned)
                given = layer.backward(given, last, rotation, learned, gradients)
            return read(logits, lesson.examples), gradients

    def _room(self, lesson: Lesson) -> AbstractContextManager[Any]:
        """Lets one long lesson run at a time: what attention keeps grows with the square of its tokens."""
        return self._long if _is_long(lesson) else nullcontext()

    def _below(self, lesson: Lesson, mask: Array, rotation: Rotation) -> Array:
        if lesson in self._kept:
            return self._kept[lesson]
        hidden = self._embeddings[np.array(lesson.tokens, np.intp)]
        for layer in self._layers[: self._first]:
            hidden, _ = layer.forward(hidden, mask, rotation, {})
        with self._keeping:
            if self.kept_bytes + hidden.nbytes <= self._most_bytes and lesson not in self._kept:
                self._kept[lesson] = hidden
                self.kept_bytes += hidden.nbytes
        return hidden

    def _reach(self, lessons: Sequence[Lesson]) -> None:
        """Have the rotations of all positions, made here: MLX runs on the caller's thread alone."""
        longest = max((int(lesson.places.max()) + 1 for lesson in lessons), default=0)
        if longest > len(self._rotations.cosines):
            self._rotations = rotation_of(self._rope, 0, longest, self._layers[0].d)


def _is_long(lesson: Lesson) -> bool:
    return lesson.size > KEPT_TOKENS


def _layer(layer: Any, path: str, scale: float) -> DecoderLayer:
    attention, mlp = layer.self_attn, layer.mlp

    def linear(part: Any, name: str) -> LowRankLinear:
        base = linear_of(part)
        return LowRankLinear(base.weight, base.bias, f"{path}.{name}" if path else "", scale)

    keys = linear(attention.k_proj, "self_attn.k_proj")
    return DecoderLayer(
        before_attention=norm_of(layer.input_layernorm),
        queries=linear(attention.q_proj, "self_attn.q_proj"),
        keys=keys,
        values=linear(attention.v_proj, "self_attn.v_proj"),
        query_norm=norm_of(attention.q_norm) if "q_norm" in attention else None,
        key_norm=norm_of(attention.k_norm) if "k_norm" in attention else None,
        output=linear(attention.o_proj, "self_attn.o_proj"),
        before_mlp=norm_of(layer.post_attention_layernorm),
        mlp=GatedMlp(
            linear(mlp.gate_proj, "mlp.gate_proj"),
            linear(mlp.up_proj, "mlp.up_proj"),
            linear(mlp.down_proj, "mlp.down_proj"),
        ),
        key_heads=attention.n_kv_heads,
        d=keys.weight.shape[1] // attention.n_kv_heads,
        scale=attention.scale,
    )
