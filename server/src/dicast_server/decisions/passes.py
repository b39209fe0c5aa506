"""What a question sends to a model and what comes back: prompts, passes, scores, readings."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of a question: the user's message, and the labels that may open the reply.

    `options[k]` is the index of the option that stands under `labels[k]`.
    """

    message: str
    labels: tuple[str, ...]
    options: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pass:
    """A prompt in a model's tokens: the whole prompt, and one token id a label."""

    tokens: tuple[int, ...]
    labels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Scores:
    """What a model said to one pass, at the position after its last token.

    `values` are the labels' logits in the order of the pass (float32 widened to float), `mass` is the
    share of the whole vocabulary's probability that falls on them, in [0, 1]; `forwards` are the
    serial numbers of the forwards that the pass took part in.
    """

    values: tuple[float, ...]
    mass: float
    forwards: tuple[int, ...] = ()

    @property
    def finite(self) -> bool:
        """Whether every value is a finite number."""
        return all(math.isfinite(value) for value in self.values) and math.isfinite(self.mass)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a readout made of its scores: a probability an option, in the order of the question.

    Probabilities are float64, in [0, 1] and sum to 1; those of a predicate are (true, false).
    `order_spread` is the largest difference between two orders' probabilities of one option.
    """

    probabilities: tuple[float, ...]
    orders: int = 1
    order_spread: float = 0.0


Reads: TypeAlias = Generator[tuple[Prompt, ...], tuple[Scores, ...], Reading]
"""A question being read: yields the prompts of a round, receives their scores, ends with the reading."""
