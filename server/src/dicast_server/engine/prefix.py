"""Kept prefixes, and what stands in for a model's cache when tails run over one: knows mlx-lm's caches."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx
from mlx import nn
from mlx_lm.models.cache import KVCache, create_attention_mask, make_prompt_cache

Cache = Any
"""One layer's cache, as mlx-lm's models call it: `offset`, `update_and_fetch`, `make_mask`."""


class Prefix(Protocol):
    """The layers' caches after a prefix, never written to again."""

    @property
    def length(self) -> int:
        """Tokens of the prefix."""

    @property
    def shares_forwards(self) -> bool:
        """Whether several rows can run over the prefix at once."""

    def row_bytes(self, width: int) -> int:
        """Bytes that one row of `width` tokens adds to the largest copy that a layer makes."""

    def caches(self, rows: int, growing: bool) -> list[Cache]:
        """A cache a layer for `rows` rows; `growing` where more than one forward follows on them."""


def fresh_caches(model: nn.Module) -> list[Cache]:
    """Empty caches of a model, for a prefill of batch 1."""
    caches: list[Cache] = make_prompt_cache(model)
    return caches


def keep(caches: Sequence[Cache], length: int) -> Prefix:
    """Turn filled caches into a prefix of `length` tokens; evaluates its arrays."""
    if all(type(cache) is KVCache for cache in caches):
        layers = tuple(cache.keys_and_values() for cache in caches) if length else ()
        mx.eval(layers)
        return SharedPrefix(length, len(caches), layers)
    return CopiedPrefix(length, list(caches))


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """A prefix of plain attention layers: keys and values of shape (1, heads, length, width) a layer.

    The empty prefix has a depth and no arrays.
    """

    length: int
    depth: int
    layers: tuple[tuple[mx.array, mx.array], ...]

    @property
    def shares_forwards(self) -> bool:
        """Rows see the prefix through broadcast views."""
        return True

    def row_bytes(self, width: int) -> int:
        """Bytes of keys and values of one row in the widest layer."""
        if not self.length:
            return 0
        widest = max(keys.nbytes + values.nbytes for keys, values in self.layers)
        return (self.length + width) * (widest // self.length)

    def caches(self, rows: int, growing: bool) -> list[Cache]:
        """Views: the prefix is broadcast to the rows and never written to."""
        if not self.length:
            return [PrefixView(None, None, 0, rows, growing) for _ in range(self.depth)]
        return [PrefixView(keys, values, self.length, rows, growing) for keys, values in self.layers]


@dataclass(frozen=True, slots=True)
class CopiedPrefix:
    """A prefix of layers that have no view: each row runs alone, on a copy of its own."""

    length: int
    filled: list[Cache]

    @property
    def shares_forwards(self) -> bool:
        """Every row needs a copy."""
        return False

    def row_bytes(self, width: int) -> int:
        """Rows never meet in one forward."""
        return 0

    def caches(self, rows: int, growing: bool) -> list[Cache]:
        """A deep copy: assigning a cache's state would share its arrays, and writes are in place."""
        if rows != 1:
            raise ValueError("rows over a copied prefix run one by one")
        return [copy.deepcopy(cache) for cache in self.filled]


class PrefixView:
    """Stands in for a layer's KV cache: a kept prefix below, the rows' own tokens above.

    A view that is not `growing` forgets what it returned, so that a layer's copy is freed after the
    layer: only one forward may run on it.
    """

    def __init__(
        self, keys: mx.array | None, values: mx.array | None, length: int, rows: int, growing: bool
    ) -> None:
        self.offset = length
        self._keys, self._values = keys, values
        self._rows = rows
        self._growing = growing

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Put new keys and values (rows, heads, width, d) behind the prefix and return the whole."""
        whole_keys, whole_values = self._join(self._keys, keys), self._join(self._values, values)
        if self._growing:
            self._keys, self._values = whole_keys, whole_values
            self.offset += keys.shape[2]
        return whole_keys, whole_values

    def make_mask(
        self, width: int, return_array: bool = False, window_size: int | None = None
    ) -> mx.array | str | None:
        """The causal mask of `width` new tokens behind `offset` earlier ones."""
        mask: mx.array | str | None = create_attention_mask(
            width, offset=self.offset, return_array=return_array, window_size=window_size
        )
        return mask

    def _join(self, below: mx.array | None, above: mx.array) -> mx.array:
        if below is None:
            return above
        if below.shape[0] != self._rows:
            below = mx.broadcast_to(below, (self._rows, *below.shape[1:]))
        return mx.concatenate([below, above], axis=2)
