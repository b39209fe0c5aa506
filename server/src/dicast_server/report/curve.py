"""The coverage curve: how often answers are right where only the surest are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dicast_server.calibration.judged import Judged
from dicast_server.calibration.metrics import coverage_curve
from dicast_server.report.canvas import Paper, empty, in_percent, png, styled
from dicast_server.report.contents import Part

_FEW = 10
"""Of fewer answers an accuracy says nothing, and a curve jumps: it begins behind them."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a guaranteed threshold stands on the curve of all rows."""

    wanted: float
    coverage: float
    accuracy: float


def marks(part: Part) -> tuple[Mark, ...]:
    """The thresholds that were found, on the last column; of those at one place the strictest."""
    judged = part.last.judged
    found: dict[float, Mark] = {}
    for each in part.thresholds:
        if each.threshold is None:
            continue
        answered = judged.certainty >= each.threshold
        if answered.any():
            coverage = float(answered.mean())
            found.setdefault(coverage, Mark(each.wanted, coverage, float(judged.right[answered].mean())))
    return tuple(found.values())


def coverage_png(part: Part, labels: Sequence[str], paper: Paper) -> bytes:
    """The curve of a part, all columns in one panel, with the thresholds marked."""
    columns = len(part.columns)
    with styled(paper):
        drawing = empty(7.45, 3.3)
        axes = drawing.add_axes((0.085, 0.155, 0.885, 0.775))
        lowest = part.guess
        for place, column in enumerate(part.columns):
            coverage, accuracy = _steady(column.judged)
            lowest = min(lowest, *accuracy)
            axes.plot(
                coverage,
                accuracy,
                color=paper.mark(place, columns),
                linewidth=2.2 if place == columns - 1 else 1.5,
                linestyle="-" if place == columns - 1 else (0, (5, 2)),
                label=labels[place] if columns > 1 else None,
            )
        axes.axhline(part.guess, color=paper.muted, linewidth=1.0, linestyle=(0, (1, 2)))
        bottom = max(0.0, lowest - 0.08)
        span = 1.0 - bottom
        axes.text(
            0.005, part.guess - 0.015 * span, "most common label", color=paper.muted, fontsize=7.5, va="top"
        )
        for each in marks(part):
            axes.vlines(each.coverage, bottom, each.accuracy, color=paper.muted, linewidth=0.8)
            axes.plot(
                [each.coverage],
                [each.accuracy],
                "D",
                color=paper.ink,
                markersize=6,
                markeredgecolor=paper.ground,
            )
            axes.annotate(
                f"error ≤ {100 * each.wanted:g} %",
                (each.coverage, each.accuracy),
                (-5, -9),
                textcoords="offset points",
                ha="right",
                va="top",
                fontsize=8,
                color=paper.ink,
            )
        axes.set_xlim(0.0, 1.01)
        axes.set_ylim(bottom, 1.0 + 0.03 * span)
        axes.tick_params(length=0)
        axes.grid(True)
        in_percent(axes)
        axes.set_xlabel("share of questions answered, the surest first")
        axes.set_title("right among the answered", loc="left", color=paper.muted, fontsize=9)
        if columns > 1:
            axes.legend(loc="upper right", bbox_to_anchor=(1.0, 1.11), ncols=2, frameon=False, fontsize=8.5)
        return png(drawing)


def _steady(judged: Judged) -> tuple[list[float], list[float]]:
    points = coverage_curve(judged)
    steady = [point for point in points if point.coverage * len(judged) >= _FEW] or list(points[-1:])
    return [point.coverage for point in steady], [point.accuracy for point in steady]
