"""The parts of a dense decoder in float32 NumPy: products by BLAS, all else in few vectorised passes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Linear:
    """Y = x W + b; the weight is (in, out), which BLAS multiplies faster than (out, in)."""

    weight: Array
    bias: Array | None = None

    def __call__(self, x: Array) -> Array:
        """Of x (tokens, in): (tokens, out), a new array."""
        y: Array = x @ self.weight
        if self.bias is not None:
            y += self.bias
        return y


@dataclass(frozen=True, slots=True)
class RmsNorm:
    """Y = x w / sqrt(mean(x^2) + eps) over the last axis (Zhang and Sennrich 2019)."""

    weight: Array
    eps: float

    def __call__(self, x: Array) -> Array:
        """Of x (..., d): a new array."""
        squares = np.einsum("...i,...i->...", x, x)[..., None]
        y: Array = x * (1 / np.sqrt(squares / x.shape[-1] + self.eps))
        y *= self.weight
        return y


@dataclass(frozen=True, slots=True)
class Rotation:
    """Rotary positions: the halves of a head are a point that turns by an angle (Su et al. 2021).

    `cosines` and `sines` are (tokens, d), where the halves differ in the sign of the sines alone.
    """

    cosines: Array
    sines: Array

    def of(self, start: int, end: int) -> Rotation:
        """That of some of the tokens."""
        return Rotation(self.cosines[start:end], self.sines[start:end])

    def turn(self, heads: Array, into: Array) -> None:
        """Turn heads (rows, tokens, ..., d) and write them to an array of that shape."""
        half = heads.shape[-1] // 2
        shape = heads.shape[1], *(1 for _ in heads.shape[2:-1]), heads.shape[-1]
        swapped = np.empty_like(heads)
        swapped[..., :half] = heads[..., half:]
        swapped[..., half:] = heads[..., :half]
        swapped *= self.sines.reshape(shape)
        np.multiply(heads, self.cosines.reshape(shape), out=into)
        into += swapped


@dataclass(frozen=True, slots=True)
class Mlp:
    """Y = down(silu(gate(x)) up(x)), with silu(g) = g / (1 + e^-g)."""

    gate: Linear
    up: Linear
    down: Linear

    def __call__(self, x: Array) -> Array:
        """Of x (tokens, d): (tokens, d), a new array."""
        gated = self.gate(x)
        divisor = np.negative(gated)
        # Where it is infinite the quotient is 0, as it should be.
        np.exp(divisor, out=divisor)
        divisor += 1
        gated /= divisor
        gated *= self.up(x)
        return self.down(gated)


def attend(queries: Array, prefix: Sequence[tuple[Array, Array]], keys: Array, values: Array) -> Array:
    """Softmax attention over a prefix that all rows see and, causally, over each row's own tokens.

    Args:
        queries: (key heads, rows, groups, width, d), scaled: each key head has a group of query heads.
        prefix: keys and values (key heads, tokens, d) of each of its parts.
        keys: (rows, key heads, tokens, d), of which the last `width` tokens are the queries'.
        values: as the keys.

    Returns:
        (rows, width, key heads, groups, d).
    """
    heads, rows, groups, width, d = queries.shape
    ends = np.cumsum([0, *(part.shape[1] for part, _ in prefix)]).tolist()
    spans = [slice(*bounds) for bounds in itertools.pairwise(ends)]
    scores = np.empty((rows, groups * width, ends[-1] + keys.shape[2]), np.float32)
    # The same numbers, as the products take them: every row against a part, each against its own.
    together = scores.reshape(rows * groups * width, -1)
    own = scores[..., ends[-1] :]
    newest = scores.reshape(rows, groups, width, -1)[..., -width:]
    later = np.triu(np.full((width, width), -np.inf, np.float32), 1)
    attended = np.empty((rows, width, heads, groups, d), np.float32)
    for head in range(heads):
        asking = queries[head].reshape(-1, d)
        for span, (part, _) in zip(spans, prefix, strict=True):
            np.matmul(asking, part[head].T, out=together[:, span])
        np.matmul(asking.reshape(rows, -1, d), keys[:, head].swapaxes(-1, -2), out=own)
        newest += later
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        result = own @ values[:, head]
        for span, (_, part) in zip(spans, prefix, strict=True):
            result += (together[:, span] @ part[head]).reshape(result.shape)
        result /= scores.sum(axis=-1, keepdims=True)
        attended[:, :, head] = result.reshape(rows, groups, width, d).swapaxes(1, 2)
    return attended
