"""Split conformal sets: options enough that the right one is among them as often as is wanted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dicast_server.calibration.guarantee import one_a_group
from dicast_server.calibration.prediction import Prediction


@dataclass(frozen=True, slots=True)
class Sets:
    """How to make sets that miss the right option with a probability of at most `wanted`.

    A set holds the options whose probability is at least `least`, and the most probable one always. `rows`
    were used, one a group. On them the sets hold `size` options in the mean, and the right one in a share of
    `covered`. A `least` of 0 takes every option: so it is where the rows are too few for the wanted error.
    """

    wanted: float
    least: float
    rows: int
    size: float
    covered: float


def conformal_sets(predictions: Sequence[Prediction], wanted: float) -> Sets:
    """The split conformal quantile (Vovk 2005) of 1 - p(label) on held-out rows.

    With n rows and k = ceil((n + 1) (1 - wanted)), `least` is the k-th largest of the labels' probabilities,
    and 0 where k > n. The right option of a new question, exchangeable with the rows, is then in its set
    with a probability of at least 1 - wanted.

    Raises:
        ValueError: `wanted` is not in (0, 1), or there are no rows.
    """
    if not 0.0 < wanted < 1.0 or not predictions:
        raise ValueError("the wanted error is in (0, 1), and there are rows")
    rows = one_a_group(predictions)
    falling = sorted((row.probabilities[row.label] for row in rows), reverse=True)
    place = math.ceil((len(rows) + 1) * (1.0 - wanted) - 1e-9)
    least = falling[place - 1] if place <= len(rows) else 0.0
    sets = [members(row.probabilities, least) for row in rows]
    return Sets(
        wanted,
        least,
        len(rows),
        sum(map(len, sets)) / len(rows),
        sum(row.label in set_ for row, set_ in zip(rows, sets, strict=True)) / len(rows),
    )


def members(probabilities: Sequence[float], least: float) -> tuple[int, ...]:
    """The options of a set: those of at least `least`, and the most probable one."""
    top = max(probabilities)
    return tuple(index for index, p in enumerate(probabilities) if p >= least or p == top)
