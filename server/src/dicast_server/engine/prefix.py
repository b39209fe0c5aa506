"""A prefix that a model has read: what its forwards left in the layers, never written to again."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache

from dicast_server.engine.layers import Layer, Part, layers_of
from dicast_server.engine.outputs import Outputs


class Prefix(Protocol):
    """The tokens that a model has read so far, as the next forward sees them."""

    @property
    def length(self) -> int:
        """How many tokens it has read."""

    @property
    def shares_forwards(self) -> bool:
        """Whether several rows can run over the prefix in one forward."""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes while rows run over it."""

    @property
    def outputs(self) -> Sequence[Outputs]:
        """What the trunk gave for its tokens, a forward each; none where they were not asked for."""

    def row_bytes(self, width: int) -> int:
        """Bytes that one layer copies at most for each row of `width` new tokens."""

    def caches(self, rows: int) -> list[Any]:
        """What stands in for a cache in each layer, for one forward of `rows` rows."""

    def after(self, caches: Sequence[Any], tokens: int, outputs: Outputs | None = None) -> Prefix:
        """The prefix behind a forward of one row of `tokens` tokens on `caches`; evaluates it.

        `outputs` are those of the row's tokens, where they are to be kept.
        """


@dataclass(frozen=True)
class Chunk:
    """What one forward of a prefix left: its tokens, a part a layer, and the trunk's outputs if kept."""

    tokens: int
    parts: tuple[Part, ...]
    outputs: Outputs | None = None

    @cached_property
    def nbytes(self) -> int:
        """Bytes of all parts and of the outputs."""
        parts = sum(array.nbytes for part in self.parts for array in part)
        return parts + (self.outputs.nbytes if self.outputs is not None else 0)


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """A chain of chunks, shown to any number of rows by views."""

    layers: tuple[Layer, ...]
    chunks: tuple[Chunk, ...] = ()

    @property
    def length(self) -> int:
        """Tokens of all chunks."""
        return sum(chunk.tokens for chunk in self.chunks)

    @property
    def shares_forwards(self) -> bool:
        """Rows see the prefix through broadcast views."""
        return True

    @property
    def nbytes(self) -> int:
        """Bytes of all chunks, which no row copies whole."""
        return sum(chunk.nbytes for chunk in self.chunks)

    @property
    def outputs(self) -> Sequence[Outputs]:
        """Those of the chunks that have kept them."""
        return [chunk.outputs for chunk in self.chunks if chunk.outputs is not None]

    def row_bytes(self, width: int) -> int:
        """Bytes of a row in the widest layer."""
        return max(
            layer.row_bytes(self._parts(index), self.length, width) for index, layer in enumerate(self.layers)
        )

    def caches(self, rows: int) -> list[Any]:
        """A view a layer."""
        return [layer.view(self._parts(index), self.length, rows) for index, layer in enumerate(self.layers)]

    def after(self, caches: Sequence[Any], tokens: int, outputs: Outputs | None = None) -> SharedPrefix:
        """The chain with what the views have added."""
        # Views of larger arrays, such as those of one product for queries, keys and values, would keep
        # all of them in memory.
        parts = [tuple(mx.contiguous(array) for array in view.added) for view in caches]
        chunk = Chunk(tokens, tuple(parts), outputs)
        mx.eval(chunk.parts)
        return self.extended(chunk)

    def extended(self, chunk: Chunk) -> SharedPrefix:
        """The chain with one more chunk."""
        return SharedPrefix(self.layers, (*self.chunks, chunk))

    def _parts(self, layer: int) -> list[Part]:
        return [chunk.parts[layer] for chunk in self.chunks]


@dataclass(frozen=True, slots=True)
class OpaquePrefix:
    """mlx-lm's own caches, where a layer has no view: each row runs alone, on a copy of its own."""

    length: int
    filled: Sequence[Any]
    outputs: tuple[Outputs, ...] = ()

    @property
    def shares_forwards(self) -> bool:
        """Every row needs a copy."""
        return False

    @property
    def nbytes(self) -> int:
        """Bytes of the caches and of the copy that a row makes."""
        held = [each for _, each in tree_flatten([cache.state for cache in self.filled])]
        copied = sum(array.nbytes for array in held if isinstance(array, mx.array))
        return 2 * copied + sum(outputs.nbytes for outputs in self.outputs)

    def row_bytes(self, width: int) -> int:
        """Rows never meet in one forward."""
        return 0

    def caches(self, rows: int) -> list[Any]:
        """A deep copy: assigning a cache's state would share its arrays, and writes are in place."""
        if rows != 1:
            raise ValueError("rows over an opaque prefix run one by one")
        return [copy.deepcopy(cache) for cache in self.filled]

    def after(self, caches: Sequence[Any], tokens: int, outputs: Outputs | None = None) -> OpaquePrefix:
        """The copies that the forward has written to."""
        mx.eval([cache.state for cache in caches])
        kept = self.outputs if outputs is None else (*self.outputs, outputs)
        return OpaquePrefix(self.length + tokens, caches, kept)


def empty_prefix(model: nn.Module) -> Prefix:
    """A model that has read nothing."""
    layers = layers_of(model)
    return opaque_prefix(model) if layers is None else SharedPrefix(layers)


def opaque_prefix(model: nn.Module) -> OpaquePrefix:
    """A model that has read nothing and keeps mlx-lm's own caches."""
    return OpaquePrefix(0, make_prompt_cache(model))
