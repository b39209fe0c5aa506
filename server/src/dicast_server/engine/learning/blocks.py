"""The parts of a dense decoder in float32 NumPy, forwards and backwards, with low-rank weights to learn.

Each part's `backward` takes the gradient by its output and gives that by its input; what the low-rank
weights get is added to `gradients`. The base's own weights are never learned.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dicast_server.engine.cpu_layers import Array, RmsNorm, Rotation

Weights: TypeAlias = Mapping[str, Array]
"""Low-rank weights under mlx-lm's names: `PATH.lora_a` (in, rank) and `PATH.lora_b` (rank, out)."""
Gradients: TypeAlias = MutableMapping[str, Array]


@dataclass(frozen=True, slots=True)
class LowRankLinear:
    """Y = x W + b + s (x A) B (Hu et al. 2021); `path` names A and B, and is empty where there are none."""

    weight: Array
    bias: Array | None
    path: str
    scale: float

    def forward(self, x: Array, learned: Weights) -> Array:
        """Of x (tokens, in): (tokens, out)."""
        y: Array = x @ self.weight
        if self.bias is not None:
            y += self.bias
        if self.path:
            low = x @ learned[f"{self.path}.lora_a"]
            low *= self.scale
            y += low @ learned[f"{self.path}.lora_b"]
        return y

    def backward(self, given: Array, x: Array, learned: Weights, gradients: Gradients) -> Array:
        """The gradient by x, from that by y."""
        back: Array = given @ self.weight.T
        if self.path:
            a, b = learned[f"{self.path}.lora_a"], learned[f"{self.path}.lora_b"]
            by_low: Array = given @ b.T
            by_low *= self.scale
            back += by_low @ a.T
            _add(gradients, f"{self.path}.lora_a", x.T @ by_low)
            low: Array = x @ a
            low *= self.scale
            _add(gradients, f"{self.path}.lora_b", low.T @ given)
        return back


def _add(gradients: Gradients, name: str, by: Array) -> None:
    if name in gradients:
        gradients[name] += by
    else:
        gradients[name] = by


def norm_backward(norm: RmsNorm, given: Array, x: Array) -> Array:
    """Of y = x w / r with r = sqrt(mean(x^2) + eps): (g w - x mean(g w x) / r^2) / r."""
    inverse = 1 / np.sqrt(np.einsum("...i,...i->...", x, x)[..., None] / x.shape[-1] + norm.eps)
    weighted = given * norm.weight
    share = np.einsum("...i,...i->...", weighted, x)[..., None] / x.shape[-1]
    back: Array = x * (share * (-(inverse**2)))
    back += weighted
    back *= inverse
    return back


def turned(rotation: Rotation, heads: Array) -> Array:
    """Heads (tokens, ..., d) at their positions."""
    into = np.empty_like(heads)
    rotation.turn(heads, into)
    return into


def turned_back(rotation: Rotation, given: Array) -> Array:
    """The gradient by heads from that by turned ones: turned by the opposite angles."""
    return turned(Rotation(rotation.cosines, -rotation.sines), given)


@dataclass(frozen=True, slots=True)
class Attended:
    """Masked softmax attention, and what its backward pass needs.

    `queries` are (key heads, groups, tokens, d), scaled; `keys` and `values` (key heads, tokens, d); `shares`
    (key heads, groups, tokens, tokens) how much each token takes of each other.
    """

    queries: Array
    keys: Array
    values: Array
    shares: Array

    @classmethod
    def of(cls, queries: Array, keys: Array, values: Array, mask: Array) -> Attended:
        """Attend; `mask` (tokens, tokens) is added to the scores."""
        shares = np.empty((*queries.shape[:3], keys.shape[1]), np.float32)
        tokens = keys.shape[1]
        for head, key in enumerate(keys):
            own = shares[head]
            np.matmul(queries[head].reshape(-1, queries.shape[-1]), key.T, out=own.reshape(-1, tokens))
            own += mask
            own -= own.max(axis=-1, keepdims=True)
            np.exp(own, out=own)
            own /= own.sum(axis=-1, keepdims=True)
        return cls(queries, keys, values, shares)

    @property
    def output(self) -> Array:
        """(tokens, key heads, groups, d)."""
        heads, groups, tokens, d = self.queries.shape
        result = np.empty((tokens, heads, groups, d), np.float32)
        for head in range(heads):
            taken = self.shares[head].reshape(groups * tokens, -1) @ self.values[head]
            result[:, head] = taken.reshape(groups, tokens, d).swapaxes(0, 1)
        return result

    def backward(self, given: Array) -> tuple[Array, Array, Array]:
        """Gradients by queries, keys and values, in their shapes, from that by the output."""
        heads, groups, tokens, d = self.queries.shape
        queries, keys = np.empty_like(self.queries), np.empty_like(self.keys)
        values = np.empty_like(self.values)
        for head in range(heads):
            own = np.ascontiguousarray(given[:, head].swapaxes(0, 1)).reshape(groups * tokens, d)
            shares = self.shares[head].reshape(groups * tokens, -1)
            values[head] = shares.T @ own
            by_scores = own @ self.values[head].T
            by_scores -= np.einsum("ij,ij->i", by_scores, shares)[:, None]
            by_scores *= shares
            queries[head] = (by_scores @ self.keys[head]).reshape(groups, tokens, d)
            keys[head] = by_scores.T @ self.queries[head].reshape(groups * tokens, d)
        return queries, keys, values


@dataclass(frozen=True, slots=True)
class GatedMlp:
    """Y = down(silu(gate(x)) up(x)), with silu(g) = g / (1 + e^-g)."""

    gate: LowRankLinear
    up: LowRankLinear
    down: LowRankLinear

    def forward(self, x: Array, learned: Weights) -> tuple[Array, tuple[Array, Array]]:
        """Of x (tokens, d): (tokens, d), and what the backward pass needs: gate(x) and up(x)."""
        gate, up = self.gate.forward(x, learned), self.up.forward(x, learned)
        return self.down.forward(gate * _sigmoid(gate) * up, learned), (gate, up)

    def backward(
        self, given: Array, x: Array, kept: tuple[Array, Array], learned: Weights, gradients: Gradients
    ) -> Array:
        """The gradient by x."""
        gate, up = kept
        open_ = _sigmoid(gate)
        silu = gate * open_
        by_inner = self.down.backward(given, silu * up, learned, gradients)
        by_up = by_inner * silu
        # silu' = s + g s (1 - s), of which g s is at hand.
        by_gate = by_inner
        by_gate *= up
        slope = 1 - open_
        slope *= silu
        slope += open_
        by_gate *= slope
        back = self.up.backward(by_up, x, learned, gradients)
        back += self.gate.backward(by_gate, x, learned, gradients)
        return back


def _sigmoid(x: Array) -> Array:
    open_ = np.negative(x)
    np.exp(open_, out=open_)
    open_ += 1
    np.reciprocal(open_, out=open_)
    return open_
