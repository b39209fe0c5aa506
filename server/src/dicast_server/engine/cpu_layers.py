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
class LowRank:
    """(x A) B, the part of an adapter (Hu et al. 2021): A is (in, r), B (r, out) with the scale in it."""

    a: Array
    b: Array


@dataclass(frozen=True, slots=True)
class Linear:
    """Y = x W + b; the weight is (in, out), which BLAS multiplies faster than (out, in).

    An adapter's part comes to it from beside, so that the weight itself is everybody's.
    """

    weight: Array
    bias: Array | None = None
    beside: LowRank | None = None

    def __call__(self, x: Array) -> Array:
        """Of x (tokens, in): (tokens, out), a new array."""
        y: Array = x @ self.weight
        if self.bias is not None:
            y += self.bias
        if self.beside is not None:
            y += (x @ self.beside.a) @ self.beside.b
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

    def at(self, places: NDArray[np.intp]) -> Rotation:
        """That of the tokens at some places."""
        return Rotation(self.cosines[places], self.sines[places])

    def turn(self, heads: Array, into: Array) -> None:
        """Turn heads (tokens, ..., d) and write them to an array of that shape."""
        half = heads.shape[-1] // 2
        shape = heads.shape[0], *(1 for _ in heads.shape[1:-1]), heads.shape[-1]
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


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens of one row that ask together: from `start` to `end` of a forward, their row from `row` on."""

    row: int
    start: int
    end: int


def attend(
    queries: Array, prefix: Sequence[tuple[Array, Array]], keys: Array, values: Array, spans: Sequence[Span]
) -> Array:
    """Softmax attention over a prefix that all rows see and, causally, over each row's own tokens.

    Args:
        queries: (key heads, groups, tokens, d), scaled: each key head has a group of query heads.
        prefix: keys and values (key heads, tokens, d) of each of its parts.
        keys: (key heads, tokens, d) of a whole forward, row behind row.
        values: as the keys.
        spans: where the queries are in the forward, one behind the other.

    Returns:
        (tokens, key heads, groups, d).
    """
    heads, groups, tokens, d = queries.shape
    ends = list(itertools.accumulate((part.shape[1] for part, _ in prefix), initial=0))
    parts = [slice(*bounds) for bounds in itertools.pairwise(ends)]
    below = ends[-1]
    scores = np.empty((groups, tokens, below + max(span.end - span.row for span in spans)), np.float32)
    # The same numbers, as the products take them: all tokens against a part, each against its own row.
    together = scores.reshape(groups * tokens, -1)
    owns: list[tuple[Span, slice, Array, Array]] = []
    for span in spans:
        here = slice(span.start - spans[0].start, span.end - spans[0].start)
        own = scores[:, here, below : below + span.end - span.row]
        width = span.end - span.start
        owns.append((span, here, own, np.triu(np.full((width, width), -np.inf, np.float32), 1)))
    attended = np.empty((tokens, heads, groups, d), np.float32)
    for head in range(heads):
        for place, (part, _) in zip(parts, prefix, strict=True):
            np.matmul(queries[head].reshape(-1, d), part[head].T, out=together[:, place])
        for span, here, own, later in owns:
            np.matmul(queries[head, :, here], keys[head, span.row : span.end].T, out=own)
            own[..., span.start - span.row :] += later
            scores[:, here, below + span.end - span.row :] = -np.inf
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        result = np.empty((groups, tokens, d), np.float32)
        for span, here, own, _ in owns:
            np.matmul(own, values[head, span.row : span.end], out=result[:, here])
        for place, (_, part) in zip(parts, prefix, strict=True):
            result += (together[:, place] @ part[head]).reshape(result.shape)
        result /= scores.sum(axis=-1, keepdims=True)
        attended[:, head] = result.swapaxes(0, 1)
    return attended
