"""The words of the page for what the code names by keys: metrics, types, verdicts, and alternative texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dicast_server.calibration.kinds import Kind
from dicast_server.calibration.metrics import Estimate
from dicast_server.calibration.verdicts import Verdict
from dicast_server.report.binning import spots
from dicast_server.report.contents import Part
from dicast_server.report.curve import marks
from dicast_server.report.numbers import percent


class MetricWords(NamedTuple):
    """A metric's name, what it says, and whether more of it is better."""

    name: str
    meaning: str
    more: bool


METRIC_WORDS = {
    "accuracy": MetricWords("Accuracy", "most probable option is the right one", True),
    "log_loss": MetricWords("Log loss", "nats; price of the probability the right option got", False),
    "brier": MetricWords("Brier score", "0 to 2; squared distance from the truth", False),
    "ece": MetricWords("ECE, equal width", "mean gap of stated and true, 10 bins", False),
    "ece_mass": MetricWords("ECE, equal mass", "the same, bins of as many answers", False),
    "ece_fine": MetricWords("ECE, 15 bins", "the same, equal width, finer", False),
    "ece_true": MetricWords("ECE of yes", "the same for the probability of yes", False),
    "auc": MetricWords("AUC", "how often a true one is above a false one", True),
}

KIND_WORDS: dict[Kind | None, str] = {
    None: "All questions",
    "predicate": "Predicates (yes or no)",
    "choice": "Choices (one of several)",
    "score": "Scores (a level on a scale)",
}

VERDICT_WORDS = {
    Verdict.CALIBRATED: "calibrated by the fit",
    Verdict.UNCHANGED: "unchanged: better than guessing as it is",
    Verdict.NO_SIGNAL: "no signal: no better than guessing",
}


def direction(name: str, estimate: Estimate) -> str:
    """What a difference says: better, worse, the same, or unclear where its interval holds zero."""
    if estimate.low == estimate.high == 0.0:
        return "same"
    if estimate.low <= 0.0 <= estimate.high:
        return "unclear"
    more = METRIC_WORDS[name].more
    return "better" if (estimate.value > 0.0) is more else "worse"


def reliability_text(part: Part, labels: Sequence[str]) -> str:
    """What the reliability diagram of a part shows, for who does not see it."""
    came_true = "yes" if part.kind == "predicate" else "right"
    told = []
    for label, column in zip(labels, part.columns, strict=True):
        points = ", ".join(
            f"stated {percent(spot.bin.stated)} and {came_true} {percent(spot.bin.true)}"
            for spot in spots(column.judged, part.kind)
        )
        told.append(f"{label}: {points}" if len(labels) > 1 else points)
    return f"Reliability diagram, {KIND_WORDS[part.kind]}. {'; '.join(told)}."


def coverage_text(part: Part) -> str:
    """What the coverage curve of a part shows."""
    whole = percent(float(part.last.judged.right.mean()))
    told = [f"{percent(1.0)} answered and {whole} of them right"]
    told += [
        f"for a wanted error of {percent(mark.wanted)}, {percent(mark.coverage)} answered and "
        f"{percent(mark.accuracy)} of them right"
        for mark in marks(part)
    ]
    return f"Coverage curve, {KIND_WORDS[part.kind]}. {'; '.join(told)}."
