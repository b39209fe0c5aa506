"""The head of the pooled readout: one score an option, from the means of hidden states over spans."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.float64]

_STATE, _QUESTION, _OPTION = 0, 1, 2
"""Rows of `centre` and `spread`: the kinds of spans."""

_PRODUCTS = ("gate", "mix", "claim")
"""Each a product of two thin matrices: x_in reads `rank` numbers of d, x_out writes d of them."""


@dataclass(frozen=True, slots=True, eq=False)
class PooledHead:
    """Compares options with what a state and a question make of each other.

    But for one offset of all predicates, each score is a product with the state: what an option or a question
    is worth whatever the state says would be learned from some fields and mislead in others.

    `tensors` are float64 and never written to, `size` is d, that of the model's hidden states.
    """

    tensors: Mapping[str, Numbers]
    size: int

    @classmethod
    def of(cls, tensors: Mapping[str, NDArray[Any]]) -> Self:
        """Check tensors as they are in an adapter's file, and widen them to float64.

        Args:
            tensors: of any float type, with d the size of the hidden states and r any rank: centre and
                spread (3, d), likeness (2, d), weight (3,), offset (1,), and for each x of gate, mix and
                claim x_in (r, d) and x_out (d, r).

        Raises:
            ValueError: one is missing, unknown, of another shape or not finite, or a spread is not above 0.
        """
        centre, gate = tensors.get("centre"), tensors.get("gate_in")
        if centre is None or centre.ndim != 2 or gate is None or gate.ndim != 2:
            raise ValueError("the head has no matrices centre and gate_in")
        size, rank = centre.shape[1], gate.shape[0]
        shapes = _shapes(size, rank)
        if set(tensors) != set(shapes):
            wrong = ", ".join(sorted(set(tensors) ^ set(shapes)))
            raise ValueError(f"the head has missing or unknown tensors: {wrong}")
        if size == 0 or rank == 0:
            raise ValueError("the head has matrices without a number")
        widened: dict[str, Numbers] = {}
        for name, shape in shapes.items():
            if tensors[name].shape != shape:
                raise ValueError(f"the head's {name} has shape {tensors[name].shape} and should have {shape}")
            numbers = np.array(tensors[name], dtype=np.float64, order="C")
            if not np.isfinite(numbers).all():
                raise ValueError(f"the head's {name} has numbers that are not finite")
            numbers.flags.writeable = False
            widened[name] = numbers
        if not (widened["spread"] > 0).all():
            raise ValueError("the head's spread has numbers that are not above 0")
        return cls(widened, size)

    def scores(self, is_predicate: bool, means: Sequence[Sequence[float]] | Numbers) -> tuple[float, ...]:
        """One score an option, whose softmax are the probabilities.

        Args:
            is_predicate: whether the options are true and false, in this order.
            means: (2 + options, d): of the state, of the question, of each option.

        Raises:
            ValueError: the means have another width, or there are none of an option.
        """
        every = np.asarray(means, dtype=np.float64)
        if every.ndim != 2 or every.shape[0] < _OPTION + 1 or every.shape[1] != self.size:
            raise ValueError(f"the head reads means of {self.size} numbers each, and was given {every.shape}")
        root = math.sqrt(self.size)
        state, asked = self._unit(every[0], _STATE), self._unit(every[1], _QUESTION)
        of = self.tensors
        key = (state * of["likeness"][0] + self._product("mix", state)) * (
            1 + self._product("gate", asked) / root
        )
        scores = []
        for mean in every[_OPTION:]:
            scores.append(float(of["weight"][0] * 8 / self.size * (self._unit(mean, _OPTION) @ key)))
        if not is_predicate:
            return tuple(scores)
        scores = [score * 0.3 * float(of["weight"][2]) for score in scores]
        holds = (state * of["likeness"][1] + self._product("claim", state)) @ asked
        scores[0] += float(of["weight"][1] * 3 / self.size * holds + of["offset"][0])
        return tuple(scores)

    def _unit(self, mean: Numbers, kind: int) -> Numbers:
        """A mean as a deviation from the usual, of root mean square 1; zeros stay zeros."""
        deviation = (mean - self.tensors["centre"][kind]) / self.tensors["spread"][kind]
        length = math.sqrt(float(deviation @ deviation))
        unit: Numbers = deviation if length == 0.0 else deviation / length * math.sqrt(self.size)
        return unit

    def _product(self, name: str, numbers: Numbers) -> Numbers:
        """A product of two thin matrices, applied to (d,)."""
        inner: Numbers = self.tensors[f"{name}_in"] @ numbers
        outer: Numbers = self.tensors[f"{name}_out"] @ inner
        return outer


def _shapes(size: int, rank: int) -> dict[str, tuple[int, ...]]:
    return {
        "centre": (3, size),
        "spread": (3, size),
        "likeness": (2, size),
        "weight": (3,),
        "offset": (1,),
        **{f"{name}_in": (rank, size) for name in _PRODUCTS},
        **{f"{name}_out": (size, rank) for name in _PRODUCTS},
    }
