"""What is learned: the loss of labels at the ends of prompts, and its gradient by their logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dicast_server.engine.learning.lesson import Example

MASS_WEIGHT = 0.1
"""How much the share of probability outside the labels counts beside what is said within them."""

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Read:
    """One example as the model reads it.

    `log_probabilities` are of its labels among each other; `mass` is their share of the whole vocabulary.
    """

    log_probabilities: NDArray[np.float64]
    mass: float

    def loss(self, right: int) -> float:
        """Cross-entropy of the right label among the labels, and MASS_WEIGHT of that of all labels."""
        return float(-self.log_probabilities[right] - MASS_WEIGHT * np.log(self.mass))


def read(logits: Array, examples: Sequence[Example]) -> list[Read]:
    """Read examples from their logits (examples, vocabulary)."""
    found = []
    for row, example in zip(logits, examples, strict=True):
        total = _log_total(row.astype(np.float64))
        labels = row[list(example.labels)].astype(np.float64)
        own = _log_total(labels)
        found.append(Read(labels - own, float(np.exp(min(0.0, own - total)))))
    return found


def gradient(logits: Array, examples: Sequence[Example]) -> Array:
    """The sum of losses by the logits, (examples, vocabulary).

    Of L = log sum_labels - z_right + w (log sum_all - log sum_labels): with p softmax over the labels and q
    over everything, dL/dz = w q + (1 - w) p - 1 at the right label.
    """
    given = np.empty_like(logits)
    for place, (row, example) in enumerate(zip(logits, examples, strict=True)):
        into = given[place]
        np.exp(row - row.max(), out=into)
        into *= MASS_WEIGHT / into.sum()
        labels = list(example.labels)
        own = row[labels]
        among = np.exp(own - own.max())
        into[labels] += (1 - MASS_WEIGHT) * among / among.sum()
        into[labels[example.right]] -= 1
    return given


def _log_total(row: NDArray[np.float64]) -> float:
    top = row.max()
    return float(top + np.log(np.exp(row - top).sum()))
