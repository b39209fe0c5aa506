"""Makes reports: of a fit, of a system that was evaluated, and of two systems on the same questions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dicast_server.calibration.assessment import Assessment
from dicast_server.calibration.conformal import conformal_sets
from dicast_server.calibration.fit import Fit
from dicast_server.calibration.guarantee import WANTED, Threshold, find_threshold
from dicast_server.calibration.judged import Judged
from dicast_server.calibration.kinds import KINDS, Kind
from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.calibration.metrics import DRAWS, paired, summary
from dicast_server.calibration.prediction import Prediction
from dicast_server.calibration.verdicts import Verdict
from dicast_server.report import headline
from dicast_server.report.baseline import guess_accuracy, has_signal
from dicast_server.report.cells import cells_of
from dicast_server.report.contents import Column, Facts, Part, Report, Tried
from dicast_server.report.misses import collect_misses


def report_of_fit(
    fit: Fit,
    assessment: Assessment,
    questions: Sequence[LabelledQuestion],
    facts: Facts,
    *,
    notes: Sequence[str] = (),
    draws: int = DRAWS,
) -> Report:
    """What `dicast calibrate` tells. `notes` come after the fit's own.

    Raises:
        ValueError: a miss is of no question among `questions`.
    """
    verdicts = {each.kind: each.verdict for each in fit.kinds}
    parts = []
    for kind, (before, after) in _by_kind(fit.before, fit.after):
        said = [verdicts[kind]] if kind is not None else list(verdicts.values())
        # What the verdict says holds for what is served after the fit.
        signal = any(each is not Verdict.NO_SIGNAL for each in said)
        figures = assessment.figures[kind]
        parts.append(
            Part(
                kind,
                (
                    Column(Judged.of(before), figures[0], has_signal(before)),
                    Column(Judged.of(after), figures[1], signal),
                ),
                paired(before, after, draws),
                guess_accuracy(after),
                tuple(
                    found
                    for of, found in assessment.thresholds
                    if of == kind and found.measure == "certainty"
                ),
                tuple(found for of, found in assessment.sets if of == kind),
                said[0] if kind is not None else None,
            )
        )
    return Report(
        "Calibration",
        headline.headline_of(parts[0]),
        headline.support_of(parts, fit.scheme),
        facts,
        ("before", "after"),
        tuple(parts),
        (collect_misses("after", fit.after, questions),),
        (*fit.notes, *notes),
        cells_of([fit.before, fit.after], fit.table),
        tuple(Tried(scheme.words, loss, scheme is fit.scheme) for scheme, loss in fit.losses.items()),
    )


def report_of_answers(
    predictions: Sequence[Prediction],
    questions: Sequence[LabelledQuestion],
    facts: Facts,
    *,
    notes: Sequence[str] = (),
    draws: int = DRAWS,
    wanted: Sequence[float] = WANTED,
) -> Report:
    """What `dicast eval` tells of one system.

    Raises:
        ValueError: there are no predictions, or a miss is of no question among `questions`.
    """
    parts = [
        Part(
            kind,
            (_column(rows, draws),),
            {},
            guess_accuracy(rows),
            _thresholds(rows, wanted),
            tuple(conformal_sets(rows, error) for error in wanted),
        )
        for kind, (rows,) in _by_kind(predictions)
    ]
    return Report(
        "Evaluation",
        headline.headline_of(parts[0]),
        headline.support_of(parts, None),
        facts,
        ("answers",),
        tuple(parts),
        (collect_misses("answers", predictions, questions),),
        tuple(notes),
        cells_of([predictions]),
    )


def report_of_two(
    first: Sequence[Prediction],
    second: Sequence[Prediction],
    questions: Sequence[LabelledQuestion],
    facts: Facts,
    *,
    notes: Sequence[str] = (),
    draws: int = DRAWS,
) -> Report:
    """What `dicast eval` tells of two systems, A and B, which answered the same questions.

    Raises:
        ValueError: they did not, or a miss is of no question among `questions`.
    """
    parts = [
        Part(
            kind,
            (_column(own, draws), _column(other, draws)),
            paired(own, other, draws),
            guess_accuracy(own),
        )
        for kind, (own, other) in _by_kind(first, second)
    ]
    return Report(
        "Comparison",
        headline.headline_of_two(parts[0]),
        headline.support_of_two(parts[0]),
        facts,
        ("A", "B"),
        tuple(parts),
        (collect_misses("A", first, questions), collect_misses("B", second, questions)),
        tuple(notes),
        cells_of([first, second]),
    )


def _by_kind(
    *columns: Sequence[Prediction],
) -> Iterable[tuple[Kind | None, list[Sequence[Prediction]]]]:
    """All rows, and those of each type; of one type only, all rows are that type's."""
    present = [kind for kind in KINDS if any(row.kind == kind for row in columns[0])]
    if len(present) == 1:
        yield present[0], list(columns)
        return
    yield None, list(columns)
    for kind in present:
        yield kind, [[row for row in column if row.kind == kind] for column in columns]


def _column(predictions: Sequence[Prediction], draws: int) -> Column:
    judged = Judged.of(predictions)
    return Column(judged, summary(judged, draws), has_signal(predictions))


def _thresholds(predictions: Sequence[Prediction], wanted: Sequence[float]) -> tuple[Threshold, ...]:
    return tuple(find_threshold(predictions, error) for error in wanted)
