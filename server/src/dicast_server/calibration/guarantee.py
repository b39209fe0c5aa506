"""A threshold under which the error among answered questions has a bound, or word that there is none.

A question is answered where its measure is at least the threshold. A fifth of the rows (by a hash of their
group) is a pilot: it gives the thresholds to try, 50 at most of its own measures and 0, and the one to begin
with, where it promises the clearest result. The other rows then test, from there downwards, the hypothesis
that the error among answered questions is above the wanted one. It is rejected where the binomial tail
P(X <= errors; answered, wanted) is at most delta, which is where the Clopper-Pearson bound is at most the
wanted error. The first threshold that is not rejected ends it (fixed-sequence testing: Angelopoulos et al.
2021, "Learn then Test"), and the last rejected one, which answers most, is taken. Because the sequence does
not depend on the rows that test, choosing keeps the bound: with probability 1 - delta over the rows the
error under the threshold is at most the wanted one.

That holds for rows that are independent draws of what will be asked. Rows of a group are not: one of each
group is used. Probabilities must be held-out ones. Each wanted error is a statement of its own.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from dicast_server.calibration.binomial import log_tail, upper_bound
from dicast_server.calibration.blocks import Floats, Ints
from dicast_server.calibration.prediction import Prediction

Measure: TypeAlias = Literal["certainty", "top"]
"""`certainty` is what `abstain.min_confidence` compares; `top` is the largest probability."""

DELTA = 0.05
WANTED = (0.01, 0.02, 0.05, 0.1, 0.2)

_MOST_THRESHOLDS = 50
_PILOT_PARTS = 5


@dataclass(frozen=True, slots=True)
class Threshold:
    """What was found for a wanted error.

    Attributes:
        wanted: the error among answered questions that is wanted, in (0, 1).
        measure: what the threshold is compared with.
        threshold: the least measure of a question that is answered; None where no threshold meets the bound.
        rows: the rows that tested, one a group, those of the pilot apart.
        answered: how many of them are answered under the threshold.
        errors: how many of those are wrong.
        bound: the upper bound on the error that was certified, at most `wanted`; None without a threshold.
        reason: why there is no threshold, empty where there is one.
    """

    wanted: float
    measure: Measure
    threshold: float | None
    rows: int
    answered: int
    errors: int
    bound: float | None
    reason: str = ""


def find_threshold(
    predictions: Sequence[Prediction], wanted: float, measure: Measure = "certainty", delta: float = DELTA
) -> Threshold:
    """The threshold that answers most with an error of at most `wanted`, with probability 1 - delta.

    Raises:
        ValueError: `wanted` or `delta` is not in (0, 1).
    """
    if not 0.0 < wanted < 1.0 or not 0.0 < delta < 1.0:
        raise ValueError("the wanted error and delta are in (0, 1)")
    rows = one_a_group(predictions)
    pilot = _Answered.of([row for row in rows if _is_pilot(row.group)], measure)
    tested = _Answered.of([row for row in rows if not _is_pilot(row.group)], measure)
    chosen: float | None = None
    for threshold in _sequence(pilot, tested.rows, wanted):
        answered, errors = tested.at(threshold)
        if answered == 0 or log_tail(errors, answered, wanted) > math.log(delta):
            break
        chosen = threshold
    if chosen is not None:
        answered, errors = tested.at(chosen)
        bound = upper_bound(errors, answered, delta)
        return Threshold(wanted, measure, chosen, tested.rows, answered, errors, bound)
    needed = math.ceil(math.log(delta) / math.log1p(-wanted))
    reason = (
        f"{tested.rows} rows are fewer than the {needed} that the bound takes without an error"
        if tested.rows < needed
        else "under every threshold that was tried the error's upper bound is above the wanted one"
    )
    return Threshold(wanted, measure, None, tested.rows, 0, 0, None, reason)


@dataclass(frozen=True, slots=True)
class _Answered:
    """Rows by falling measure: `falling` the measures, `wrong[k]` the errors among the first k."""

    falling: Floats
    wrong: Ints

    @classmethod
    def of(cls, rows: Sequence[Prediction], measure: Measure) -> _Answered:
        ordered = sorted(rows, key=lambda row: -value_of(row, measure))
        errors = np.array([not row.right for row in ordered], dtype=np.int64)
        falling = np.array([value_of(row, measure) for row in ordered], dtype=np.float64)
        return cls(falling, np.concatenate([np.zeros(1, np.int64), np.cumsum(errors)]))

    @property
    def rows(self) -> int:
        return len(self.falling)

    def at(self, threshold: float) -> tuple[int, int]:
        """How many are answered under a threshold, and how many of those are wrong."""
        answered = int(np.searchsorted(-self.falling, -threshold, side="right"))
        return answered, int(self.wrong[answered])


def _sequence(pilot: _Answered, rows: int, wanted: float) -> list[float]:
    """The thresholds to test on `rows` rows, falling, from the pilot alone.

    The first is where the tail would be least if the rows were to the pilot as their numbers are; half a
    wanted error is added to the pilot's errors, so that a few right answers at the top promise little.
    """
    values = np.unique(np.append(pilot.falling, 0.0))[::-1]
    places = np.linspace(0, len(values) - 1, min(len(values), _MOST_THRESHOLDS)).astype(np.int64)
    grid: list[float] = values[np.unique(places)].tolist()
    scale = rows / max(1, pilot.rows)

    def promise(threshold: float) -> float:
        answered, errors = pilot.at(threshold)
        expected = min(answered * scale, (errors + 0.5 * wanted) * scale)
        return log_tail(round(expected), int(answered * scale), wanted)

    first = min(range(len(grid)), key=lambda place: promise(grid[place]))
    return grid[first:]


def _is_pilot(group: str) -> bool:
    # Other digits than those that choose the fold, so that the pilot is of all folds.
    return int(hashlib.sha256(group.encode()).hexdigest()[8:16], 16) % _PILOT_PARTS == 0


def value_of(row: Prediction, measure: Measure) -> float:
    """A row's measure."""
    return row.certainty if measure == "certainty" else row.top


def one_a_group(predictions: Sequence[Prediction]) -> list[Prediction]:
    """One row of each group, drawn by the hash of its id; in a fixed order."""
    chosen: dict[str, tuple[bytes, Prediction]] = {}
    for row in predictions:
        drawn = hashlib.sha256(row.id.encode()).digest()
        if row.group not in chosen or (drawn, row) < chosen[row.group]:
            chosen[row.group] = (drawn, row)
    return [chosen[group][1] for group in sorted(chosen)]
