"""How good some answers are: accuracy and log loss with 95 % intervals, beside what guessing would give.

The intervals take questions for independent. Those of the probe set share states in threes, so that they are
a little too narrow.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from dicast_server.decisions.confidence import mode

LEAST_PROBABILITY = 1e-9
"""A right option that has less counts as if it had this, so that one answer cannot make a mean infinite."""

_Z = 1.959963984540054
_RESAMPLES = 2000
_TAIL = 0.025


@dataclass(frozen=True, slots=True)
class Graded:
    """An answer's probabilities, and the index of the right option among them."""

    probabilities: tuple[float, ...]
    right: int

    @property
    def correct(self) -> bool:
        """Whether the right option is the most probable one; of equal ones the first counts."""
        return mode(self.probabilities) == self.right

    @property
    def loss(self) -> float:
        """-ln p of the right option, in nats."""
        return -math.log(max(self.probabilities[self.right], LEAST_PROBABILITY))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measured value with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Measures:
    """What some answers come to. Log losses are means in nats; chance is every option alike."""

    questions: int
    accuracy: Estimate
    log_loss: Estimate
    chance_accuracy: float
    chance_log_loss: float

    @classmethod
    def of(cls, graded: Sequence[Graded]) -> Measures:
        """The measures of one answer or more."""
        options = [len(each.probabilities) for each in graded]
        return cls(
            len(graded),
            wilson(sum(each.correct for each in graded), len(graded)),
            bootstrapped([each.loss for each in graded]),
            fmean(1.0 / n for n in options),
            fmean(math.log(n) for n in options),
        )


def wilson(right: int, asked: int) -> Estimate:
    """A share with its Wilson score interval, which stays within [0, 1] also for none and all; asked >= 1."""
    share = right / asked
    scale = 1.0 + _Z**2 / asked
    middle = (share + _Z**2 / (2 * asked)) / scale
    half = _Z / scale * math.sqrt(share * (1.0 - share) / asked + _Z**2 / (4 * asked**2))
    # At the ends the formula gives the share itself, but for rounding.
    return Estimate(share, min(share, max(0.0, middle - half)), max(share, min(1.0, middle + half)))


def bootstrapped(values: Sequence[float]) -> Estimate:
    """A mean with the percentiles of 2,000 means of values drawn again; the draws are always the same."""
    draw = random.Random(0)
    means = sorted(fmean(draw.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    cut = round(_RESAMPLES * _TAIL)
    return Estimate(fmean(values), means[cut], means[-cut - 1])
