"""The one module that knows mlx-lm's caches: what each layer keeps of a prefix, and how tails see it.

A layer is run over a prefix through a view, which stands in for mlx-lm's cache: it shows the prefix to
any number of rows, keeps what the forward adds, and never writes to what it shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import mlx.core as mx
from mlx import nn
from mlx_lm.models.cache import (
    ArraysCache,
    KVCache,
    RotatingKVCache,
    create_causal_mask,
    make_prompt_cache,
)

Part: TypeAlias = tuple[mx.array, ...]
"""What one forward leaves in one layer: (keys, values) of its tokens, or the state behind them."""


class View(Protocol):
    """Stands in for a layer's cache during one forward."""

    @property
    def added(self) -> Part:
        """What the forward added, for one row."""


class Layer(Protocol):
    """How one layer remembers."""

    def view(self, parts: Sequence[Part], length: int, rows: int) -> View:
        """A view of a prefix of `length` tokens, whose forwards left `parts`, for `rows` rows."""

    def row_bytes(self, parts: Sequence[Part], length: int, width: int) -> int:
        """Bytes that a view copies for each row of `width` new tokens."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Keeps keys and values of every token; sees the last `window` tokens, or all of them (None)."""

    window: int | None = None

    def view(self, parts: Sequence[Part], length: int, rows: int) -> AttentionView:
        """The prefix's keys and values, broadcast to the rows."""
        return AttentionView(self._seen(parts), length, rows, self.window)

    def row_bytes(self, parts: Sequence[Part], length: int, width: int) -> int:
        """Each row gets the keys and values that it sees, joined with its own."""
        seen = self._seen(parts)
        tokens = sum(keys.shape[2] for keys, _ in seen)
        if not tokens:
            return 0
        return sum(keys.nbytes + values.nbytes for keys, values in seen) * (tokens + width) // tokens

    def _seen(self, parts: Sequence[Part]) -> list[Part]:
        """The parts from the first token that the next one may see."""
        if self.window is None:
            return list(parts)
        seen: list[Part] = []
        missing = self.window - 1
        for keys, values in reversed(parts):
            if missing <= 0:
                break
            tokens = min(missing, keys.shape[2])
            seen.append((keys[:, :, -tokens:], values[:, :, -tokens:]))
            missing -= tokens
        return seen[::-1]


class AttentionView:
    """Keys and values of a prefix below, the rows' own above; arrays are (rows, heads, tokens, width)."""

    def __init__(self, seen: Sequence[Part], length: int, rows: int, window: int | None) -> None:
        self.offset = length
        self._seen = seen
        self._rows = rows
        self._window = window
        self._added: Part = ()

    @property
    def added(self) -> Part:
        """Keys and values of the forward's own tokens."""
        return self._added

    @property
    def seen(self) -> Sequence[Part]:
        """The parts of the prefix that the rows see, of one row each."""
        return self._seen

    def add(self, keys: mx.array, values: mx.array) -> None:
        """Keep the forward's own keys and values."""
        self._added = (keys, values)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Join the rows' keys and values to the prefix's."""
        self.add(keys, values)
        below = [part[0] for part in self._seen], [part[1] for part in self._seen]
        return self._join(below[0], keys), self._join(below[1], values)

    def make_mask(
        self, width: int, return_array: bool = False, window_size: int | None = None
    ) -> mx.array | str | None:
        """The causal mask of `width` new tokens over what `update_and_fetch` returns."""
        window = window_size or self._window
        below = sum(part[0].shape[2] for part in self._seen)
        if window is not None and below + width > window:
            mask: mx.array = create_causal_mask(width, below, window_size=window)
            return mask
        if return_array:
            mask = create_causal_mask(width, below)
            return mask
        return None if width == 1 else "causal"

    def _join(self, below: list[mx.array], own: mx.array) -> mx.array:
        if not below:
            return own
        shown = [mx.broadcast_to(part, (self._rows, *part.shape[1:])) for part in below]
        return mx.concatenate([*shown, own], axis=2)


@dataclass(frozen=True, slots=True)
class Recurrent:
    """Keeps a state of fixed size: `size` arrays that the last token left."""

    size: int

    def view(self, parts: Sequence[Part], length: int, rows: int) -> RecurrentView:
        """The last state, broadcast to the rows."""
        return RecurrentView(parts[-1] if parts else (), self.size, rows)

    def row_bytes(self, parts: Sequence[Part], length: int, width: int) -> int:
        """Each row gets the state."""
        return sum(array.nbytes for array in parts[-1]) if parts else 0


class RecurrentView:
    """A recurrent layer's state: reads give the prefix's until the forward writes its own."""

    lengths = None
    left_padding = None

    def __init__(self, state: Part, size: int, rows: int) -> None:
        self._arrays: list[mx.array | None] = [None] * size
        for index, array in enumerate(state):
            self._arrays[index] = mx.broadcast_to(array, (rows, *array.shape[1:]))

    @property
    def added(self) -> Part:
        """The state behind the forward's last token."""
        return tuple(array for array in self._arrays if array is not None)

    def __getitem__(self, index: int) -> mx.array | None:
        return self._arrays[index]

    def __setitem__(self, index: int, array: mx.array) -> None:
        self._arrays[index] = array

    def advance(self, tokens: int) -> None:
        """Nothing is counted: rows are never padded on the left."""

    def make_mask(self, width: int) -> None:
        """No position is hidden: padding on the right comes after everything that is read."""


def layers_of(model: nn.Module) -> tuple[Layer, ...] | None:
    """How each layer of a model remembers; None where one of them has no view."""
    layers = [_layer(cache) for cache in make_prompt_cache(model)]
    known = tuple(layer for layer in layers if layer is not None)
    return known if len(known) == len(layers) else None


def _layer(cache: Any) -> Layer | None:
    # Subclasses do something else, so the exact type counts.
    if type(cache) is KVCache:
        return Attention()
    if type(cache) is RotatingKVCache and cache.keep == 0:
        return Attention(cache.max_size)
    if type(cache) is ArraysCache:
        return Recurrent(len(cache.cache))
    return None
