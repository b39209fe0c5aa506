"""What a distribution says of itself: System One's published confidence formulas, and plainer measures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """How a distribution is spread.

    `entropy` is in nats; `margin` is the largest probability less the second; `concentration` is
    max(0, 1 - entropy / ln n), in [0, 1].
    """

    entropy: float
    margin: float
    concentration: float

    @classmethod
    def of(cls, probabilities: Sequence[float]) -> Spread:
        """The spread of n >= 2 probabilities."""
        # Minus zero, which a sum of nothing's logarithms would be, is no entropy to show.
        entropy = abs(math.fsum(p * math.log(p) for p in probabilities if p > 0.0))
        second, first = sorted(probabilities)[-2:]
        return cls(entropy, first - second, max(0.0, 1.0 - entropy / math.log(len(probabilities))))


def mode(probabilities: Sequence[float]) -> int:
    """The index of the largest probability; of equal ones the first."""
    return max(range(len(probabilities)), key=lambda index: (probabilities[index], -index))


def choice_confidence(probabilities: Sequence[float]) -> float:
    """(max p - 1/n) / (1 - 1/n), in [0, 1]: 0 for a uniform distribution, 1 for certainty; n >= 2."""
    uniform = 1.0 / len(probabilities)
    return min(1.0, max(0.0, (max(probabilities) - uniform) / (1.0 - uniform)))


def score_confidence(probabilities: Sequence[float]) -> float:
    """max(0, 1 - D / U), in [0, 1]; n >= 2.

    D is the mean distance from the mode, the sum of p_i |i - mode|. U is the mean distance of a uniform
    scale from its middle, the mean of |i - (n - 1) / 2|.
    """
    n = len(probabilities)
    k = mode(probabilities)
    distance = sum(p * abs(i - k) for i, p in enumerate(probabilities))
    uniform = sum(abs(i - (n - 1) / 2) for i in range(n)) / n
    return min(1.0, max(0.0, 1.0 - distance / uniform))


def expected_level(probabilities: Sequence[float]) -> float:
    """The sum of i p_i, clamped to [0, n - 1]: rounding in the last bit must not leave the scale."""
    expected = sum(i * p for i, p in enumerate(probabilities))
    return min(float(len(probabilities) - 1), max(0.0, expected))
