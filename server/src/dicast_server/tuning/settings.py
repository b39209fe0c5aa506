"""What is set of a tuning. Whoever sets the same on the same questions and base gets the same weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

_WARM_UP = 20
_LEAST_RATE = 0.1


@dataclass(frozen=True, slots=True)
class LowRank:
    """What learns: matrices of a `rank` beside the linear layers of the last `layers`, times `scale`.

    A model that has fewer layers learns in all of them.
    """

    layers: int = 14
    rank: int = 16
    scale: float = 2.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how fast weights are changed, and in which order options are learned.

    The rate rises over the first 20 steps to `learning_rate` and falls in half a cosine to a tenth of it. A
    step takes `lessons`. Training ends after `epochs`, or when `patience` of them brought nothing better.
    The options of a choice keep the order of their row, which is how they will be asked; `shuffled` lists
    them in another one each epoch.
    """

    learning_rate: float = 5e-4
    epochs: int = 8
    lessons: int = 2
    patience: int = 3
    seed: int = 0
    shuffled: bool = False

    def rate(self, step: int, steps: int) -> float:
        """The rate of a step, from 1 to `steps`."""
        left = 0.5 * (1 + math.cos(math.pi * step / steps))
        return self.learning_rate * min(1.0, step / _WARM_UP) * (_LEAST_RATE + (1 - _LEAST_RATE) * left)


LOW_RANK, SCHEDULE = LowRank(), Schedule()
"""What is set where nobody says otherwise."""
