"""The reliability diagram: what was stated against what came true, a panel a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dicast_server.calibration.kinds import Kind
from dicast_server.report.binning import spots
from dicast_server.report.canvas import Paper, empty, in_percent, png, styled
from dicast_server.report.contents import Column, Part
from dicast_server.report.numbers import figure as shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STRIP = 25


def reliability_png(part: Part, labels: Sequence[str], paper: Paper) -> bytes:
    """The diagram of a part: points on the line mean what they state; a strip shows where answers are."""
    columns = len(part.columns)
    with styled(paper):
        drawing = empty(0.87 + 3.35 * columns, 4.45)
        grid = drawing.add_gridspec(
            2,
            columns,
            height_ratios=(6, 1),
            hspace=0.07,
            wspace=0.1,
            left=0.66 / (0.87 + 3.35 * columns),
            right=1 - 0.24 / (0.87 + 3.35 * columns),
            top=0.91,
            bottom=0.105,
        )
        for place, column in enumerate(part.columns):
            panel = drawing.add_subplot(grid[0, place])
            strip = drawing.add_subplot(grid[1, place], sharex=panel)
            colour = paper.mark(place, columns)
            _panel(panel, part.kind, column, colour, paper)
            _strip(strip, part.kind, column, colour)
            title = f"{labels[place]}:  " if columns > 1 else ""
            panel.set_title(f"{title}{_error(part.kind, column)}", loc="left", color=paper.ink, fontsize=10.5)
            strip.set_xlabel(
                "stated probability of yes"
                if part.kind == "predicate"
                else "stated probability of the answer"
            )
            if place == 0:
                panel.set_ylabel("were yes" if part.kind == "predicate" else "were right")
                strip.set_ylabel("answers", rotation=0, ha="right", va="center", fontsize=7.5)
            else:
                panel.tick_params(labelleft=False)
        return png(drawing)


def _panel(panel: Axes, kind: Kind | None, column: Column, colour: str, paper: Paper) -> None:
    panel.set_xlim(-0.02, 1.02)
    panel.set_ylim(-0.02, 1.02)
    panel.set_xticks(np.linspace(0, 1, 6))
    panel.set_yticks(np.linspace(0, 1, 6))
    panel.tick_params(labelbottom=False, length=0)
    in_percent(panel, x=False)
    panel.grid(True)
    panel.fill_between([0, 1], [0, 1], 0, color=paper.tint, linewidth=0, zorder=0.5)
    panel.plot([0, 1], [0, 1], color=paper.muted, linewidth=1.1, linestyle=(0, (4, 3)), zorder=1.5)
    above, below = (
        ("yes stated too low", "yes stated too high")
        if kind == "predicate"
        else ("not sure enough", "too sure")
    )
    panel.text(0.03, 0.95, above, color=paper.muted, fontsize=8, va="top")
    panel.text(0.97, 0.03, below, color=paper.muted, fontsize=8, ha="right")
    found = spots(column.judged, kind)
    stated = [each.bin.stated for each in found]
    true = [each.bin.true for each in found]
    panel.vlines(
        stated, [each.low for each in found], [each.high for each in found], color=colour, alpha=0.45
    )
    panel.plot(stated, true, color=colour, linewidth=1.0, alpha=0.7)
    panel.plot(stated, true, "o", color=colour, markersize=6, markeredgecolor=paper.ground)
    rows = sorted({each.bin.rows for each in found})
    span = f"{rows[0]:,}" if len(rows) == 1 else f"{rows[0]:,} to {rows[-1]:,}"
    panel.text(
        0.97, 0.085, f"a point: {span} answers", color=paper.muted, fontsize=7.5, ha="right", va="bottom"
    )


def _strip(strip: Axes, kind: Kind | None, column: Column, colour: str) -> None:
    judged = column.judged
    stated = judged.true if kind == "predicate" else judged.top
    strip.hist(stated, bins=_STRIP, range=(0.0, 1.0), color=colour, alpha=0.6, rwidth=0.86)
    strip.set_yticks([])
    strip.tick_params(length=0)
    strip.spines["left"].set_visible(False)
    in_percent(strip, y=False)


def _error(kind: Kind | None, column: Column) -> str:
    name = "ece_true" if kind == "predicate" else "ece"
    return f"mean gap {shown(name, column.figures[name].value)} (ECE)"
