"""Figures of a system on labelled questions, with intervals that draw groups rather than rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dicast_server.calibration.blocks import Ints
from dicast_server.calibration.judged import Judged
from dicast_server.calibration.prediction import Prediction
from dicast_server.calibration.reliability import calibration_error

DRAWS = 1000
SEED = 217
"""The published bootstrap: 1,000 draws of groups with replacement under this seed."""

Metric = Callable[[Judged], float]


class Estimate(NamedTuple):
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float


class Point(NamedTuple):
    """Answering only what is at least as sure as `threshold`: the share answered, and its accuracy."""

    threshold: float
    coverage: float
    accuracy: float


def accuracy(judged: Judged) -> float:
    """The share of rows whose most probable option is right."""
    return float(judged.right.mean())


def log_loss(judged: Judged) -> float:
    """The mean of -ln max(p of the label, 1e-12), in nats."""
    return float(judged.loss.mean())


def brier(judged: Judged) -> float:
    """The mean over rows of the squared errors summed over options (Brier 1950), in [0, 2].

    A predicate's is twice (p(true) - 1 or 0)^2.
    """
    return float(judged.squared.mean())


def ece(judged: Judged) -> float:
    """ECE of the largest probability in 10 bins of equal width."""
    return calibration_error(judged.top, judged.right)


def ece_mass(judged: Judged) -> float:
    """ECE of the largest probability in 10 bins of equal mass."""
    return calibration_error(judged.top, judged.right, equal_mass=True)


def ece_fine(judged: Judged) -> float:
    """ECE of the largest probability in 15 bins of equal width."""
    return calibration_error(judged.top, judged.right, bins=15)


def ece_true(judged: Judged) -> float:
    """ECE of p(true) in 10 bins of equal width, over predicates; NaN without one."""
    if not judged.predicate.any():
        return float("nan")
    return calibration_error(judged.true[judged.predicate], judged.is_true[judged.predicate])


def auc(judged: Judged) -> float:
    """How often p(true) is larger for a true predicate than for a false one, ties half (Mann-Whitney).

    NaN where predicates of one of the two are missing.
    """
    values, truth = judged.true[judged.predicate], judged.is_true[judged.predicate]
    positives = int(truth.sum())
    negatives = len(truth) - positives
    if positives == 0 or negatives == 0:
        return float("nan")
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    # The mean rank of equal values.
    ranks = np.cumsum(counts) - (counts - 1) / 2.0
    above = float(ranks[inverse][truth].sum()) - positives * (positives + 1) / 2.0
    return above / (positives * negatives)


METRICS: Mapping[str, Metric] = {
    "accuracy": accuracy,
    "log_loss": log_loss,
    "brier": brier,
    "ece": ece,
    "ece_mass": ece_mass,
    "ece_fine": ece_fine,
    "ece_true": ece_true,
    "auc": auc,
}


GAPS = frozenset({"ece", "ece_mass", "ece_fine", "ece_true"})
"""Sums of distances, which chance alone makes larger."""


def summary(judged: Judged, draws: int = DRAWS) -> dict[str, Estimate]:
    """All figures that there are for these rows, each with its interval, from the same draws."""
    shown = {name: metric for name, metric in METRICS.items() if not np.isnan(metric(judged))}
    drawn = [judged.take(places) for places in resamples(judged.groups, draws)]
    found = {name: _estimate(metric(judged), [metric(d) for d in drawn]) for name, metric in shown.items()}
    return {name: _of_gap(each) if name in GAPS else each for name, each in found.items()}


def paired(
    first: Sequence[Prediction], second: Sequence[Prediction], draws: int = DRAWS
) -> dict[str, Estimate]:
    """Each figure of `second` less that of `first`, on the same questions, with intervals.

    Raises:
        ValueError: they are not about the same rows with the same labels.
    """
    if sorted(map(_identity, first)) != sorted(map(_identity, second)):
        raise ValueError("the two systems did not answer the same labelled questions")
    before, after = Judged.of(first), Judged.of(second)
    places = list(resamples(before.groups, draws))
    found = {}
    for name, metric in METRICS.items():
        value = metric(after) - metric(before)
        if not np.isnan(value):
            found[name] = _estimate(value, [metric(after.take(p)) - metric(before.take(p)) for p in places])
    return found


def resamples(groups: Ints, draws: int = DRAWS) -> list[Ints]:
    """The rows of each draw: as many groups as there are, with replacement, all rows of each."""
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    starts = np.cumsum(sizes) - sizes
    generator = np.random.default_rng(SEED)
    found: list[Ints] = []
    for _ in range(draws):
        drawn = generator.integers(0, len(sizes), len(sizes))
        counts = sizes[drawn]
        # Each drawn group's rows follow each other in `order`.
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        found.append(order[np.repeat(starts[drawn], counts) + within])
    return found


def coverage_curve(judged: Judged, points: int = 200) -> tuple[Point, ...]:
    """Accuracy against the share answered, surest first, by certainty; at most about `points` of them."""
    order = np.argsort(-judged.certainty, kind="stable")
    certainty = judged.certainty[order]
    hits = np.cumsum(judged.right[order])
    # Rows of one certainty are answered together or not at all.
    last = np.flatnonzero(np.append(certainty[1:] != certainty[:-1], True))
    chosen = last[np.unique(np.linspace(0, len(last) - 1, min(points, len(last))).round().astype(np.int64))]
    rows = len(judged)
    return tuple(
        Point(float(certainty[place]), (place + 1) / rows, float(hits[place]) / (place + 1))
        for place in chosen.tolist()
    )


def worst(predictions: Sequence[Prediction], count: int = 20) -> tuple[Prediction, ...]:
    """The wrong answers whose labels had the least probability, worst first; of equal ones by id."""
    wrong = [row for row in predictions if not row.right]
    return tuple(sorted(wrong, key=lambda row: (row.probabilities[row.label], row.id))[:count])


def _identity(row: Prediction) -> tuple[str, str, str, int, int]:
    return (row.id, row.group, row.kind, row.label, len(row.probabilities))


def _estimate(value: float, drawn: Sequence[float]) -> Estimate:
    """The published percentiles: entries int(0.025 n) and int(0.975 n) of the n sorted draws.

    Draws for which there is no figure, as an AUC of true predicates alone, are left out.
    """
    ordered = sorted(each for each in drawn if not np.isnan(each))
    if not ordered:
        return Estimate(value, value, value)
    return Estimate(value, ordered[int(0.025 * len(ordered))], ordered[int(0.975 * len(ordered))])


def _of_gap(estimate: Estimate) -> Estimate:
    """The interval of a calibration error.

    A sample's is above the truth, and a resample's above the sample's, so that the percentiles may both lie
    above the figure and never reach 0. The lower end is therefore the upper one's mirror image (the basic
    bootstrap's, Davison and Hinkley 1997, 5.2), and the upper end stays, which errs on the safe side.
    """
    value, high = estimate.value, max(estimate.value, estimate.high)
    return Estimate(value, max(0.0, 2.0 * value - high), high)
