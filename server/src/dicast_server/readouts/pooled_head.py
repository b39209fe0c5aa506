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
"""Rows of `mu` and `sd`: the kinds of spans."""

_PRODUCTS = ("g", "q", "m", "p")
"""Each a product of two thin matrices: x1 reads `rank` numbers of d, x2 writes d of them."""


@dataclass(frozen=True, slots=True, eq=False)
class PooledHead:
    """Compares options with what a state and a question make of each other.

    `tensors` are float64 and never written to, `size` is d, that of the model's hidden states.
    """

    tensors: Mapping[str, Numbers]
    size: int

    @classmethod
    def of(cls, tensors: Mapping[str, NDArray[Any]]) -> Self:
        """Check tensors as they are in an adapter's file, and widen them to float64.

        Args:
            tensors: of any float type, with d the size of the hidden states and r any rank: mu and sd
                (3, d), d and w (2, d), t (3,), b (1,), and for each x of g, q, m, p x1 (r, d) and x2 (d, r).

        Raises:
            ValueError: one is missing, unknown, of another shape or not finite, or an sd is not above 0.
        """
        mu, g1 = tensors.get("mu"), tensors.get("g1")
        if mu is None or mu.ndim != 2 or g1 is None or g1.ndim != 2:
            raise ValueError("the head has no matrices mu and g1")
        size, rank = mu.shape[1], g1.shape[0]
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
        if not (widened["sd"] > 0).all():
            raise ValueError("the head's sd has numbers that are not above 0")
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
        key = (state * of["d"][0] + self._product("m", state)) * (1 + self._product("g", asked) / root)
        key += self._product("q", asked)
        scores = []
        for mean in every[_OPTION:]:
            option = self._unit(mean, _OPTION)
            fits = of["t"][0] * 8 / self.size * (option @ key)
            scores.append(float(fits + of["w"][0] @ option / root))
        if not is_predicate:
            return tuple(scores)
        scores = [score * 0.3 * float(of["t"][2]) for score in scores]
        holds = (state * of["d"][1] + self._product("p", state)) @ asked
        scores[0] += float(of["t"][1] * 3 / self.size * holds + of["b"][0] + of["w"][1] @ asked / root)
        return tuple(scores)

    def _unit(self, mean: Numbers, kind: int) -> Numbers:
        """A mean as a deviation from the usual, of root mean square 1; zeros stay zeros."""
        deviation = (mean - self.tensors["mu"][kind]) / self.tensors["sd"][kind]
        length = math.sqrt(float(deviation @ deviation))
        unit: Numbers = deviation if length == 0.0 else deviation / length * math.sqrt(self.size)
        return unit

    def _product(self, name: str, numbers: Numbers) -> Numbers:
        """A product of two thin matrices, applied to (d,)."""
        inner: Numbers = self.tensors[f"{name}1"] @ numbers
        outer: Numbers = self.tensors[f"{name}2"] @ inner
        return outer


def _shapes(size: int, rank: int) -> dict[str, tuple[int, ...]]:
    return {
        "mu": (3, size),
        "sd": (3, size),
        "d": (2, size),
        "w": (2, size),
        "t": (3,),
        "b": (1,),
        **{f"{name}1": (rank, size) for name in _PRODUCTS},
        **{f"{name}2": (size, rank) for name in _PRODUCTS},
    }
