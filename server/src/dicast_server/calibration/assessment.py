"""All that is told of a fit: figures before and after on held-out rows, thresholds and sets, by type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dicast_server.calibration.conformal import Sets, conformal_sets
from dicast_server.calibration.fit import Fit
from dicast_server.calibration.guarantee import WANTED, Measure, Threshold, find_threshold
from dicast_server.calibration.judged import Judged
from dicast_server.calibration.kinds import KINDS, Kind
from dicast_server.calibration.metrics import DRAWS, Estimate, summary
from dicast_server.calibration.prediction import Prediction

MEASURES: tuple[Measure, ...] = ("certainty", "top")


@dataclass(frozen=True, slots=True)
class Assessment:
    """What holds for each type, and for all rows together under None."""

    figures: Mapping[Kind | None, tuple[Mapping[str, Estimate], Mapping[str, Estimate]]]
    thresholds: tuple[tuple[Kind | None, Threshold], ...]
    sets: tuple[tuple[Kind | None, Sets], ...]


def assess(fit: Fit, draws: int = DRAWS, wanted: Sequence[float] = WANTED) -> Assessment:
    """Judge a fit by its held-out probabilities.

    Thresholds and sets are those of the folds' fits; what is served is fitted on all rows, a little better.
    """
    figures: dict[Kind | None, tuple[Mapping[str, Estimate], Mapping[str, Estimate]]] = {}
    thresholds: list[tuple[Kind | None, Threshold]] = []
    sets: list[tuple[Kind | None, Sets]] = []
    for kind, before, after in _by_kind(fit):
        figures[kind] = (summary(Judged.of(before), draws), summary(Judged.of(after), draws))
        for error in wanted:
            thresholds += [(kind, find_threshold(after, error, measure)) for measure in MEASURES]
            sets.append((kind, conformal_sets(after, error)))
    return Assessment(figures, tuple(thresholds), tuple(sets))


def _by_kind(fit: Fit) -> Iterable[tuple[Kind | None, list[Prediction], list[Prediction]]]:
    yield None, list(fit.before), list(fit.after)
    for kind in KINDS:
        before = [row for row in fit.before if row.kind == kind]
        if before:
            yield kind, before, [row for row in fit.after if row.kind == kind]
