"""Chance from a seed: every draw of a case comes from one of these, so that a seed gives the same bytes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Draws named by a text; the same text gives the same draws on every machine."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def one(self, given: Sequence[T]) -> T:
        """One of them."""
        return given[self._random.randrange(len(given))]

    def some(self, given: Sequence[T], count: int) -> list[T]:
        """Several of them, none twice, in any order; fewer where there are fewer."""
        return self._random.sample(list(given), min(count, len(given)))

    def shuffled(self, given: Sequence[T]) -> list[T]:
        """All of them in any order."""
        return self.some(given, len(given))

    def chance(self, share: float) -> bool:
        """True in this share of draws."""
        return self._random.random() < share

    def number(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return self._random.randint(low, high)

    def weighted(self, given: Sequence[tuple[T, float]]) -> T:
        """One of them, as often as its weight says."""
        return self._random.choices([each for each, _ in given], [weight for _, weight in given])[0]
