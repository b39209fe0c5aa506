"""What diagrams have in common: paper for light and for dark, fonts, and the same bytes each time."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 160
_COLOURS = 96


@dataclass(frozen=True, slots=True)
class Paper:
    """Colours: of columns' marks the first and the last one, which is also that of a single column.

    Orange and blue stay apart for those who do not tell red from green, and in print.
    """

    ground: str
    ink: str
    muted: str
    rule: str
    tint: str
    first: str
    last: str

    def mark(self, place: int, columns: int) -> str:
        """The colour of a column."""
        return self.last if place == columns - 1 else self.first


LIGHT = Paper("#ffffff", "#1d2430", "#5d6778", "#dfe3ea", "#f4f6f9", "#c2571a", "#1f5fd0")
DARK = Paper("#151920", "#e7eaf0", "#9aa5b5", "#2f3743", "#1c222b", "#f0985a", "#7fb0ff")


@contextmanager
def styled(paper: Paper) -> Iterator[None]:
    """Matplotlib's own defaults with this paper, whatever a user's settings are; put back afterwards."""
    # Imported here and in the drawings: it takes half a second, which who writes no report need not wait.
    from matplotlib import style

    own: dict[str, Any] = {
        # Comes with matplotlib, so that the bytes do not depend on a machine's fonts.
        "font.family": "DejaVu Sans",
        "font.size": 9.0,
        "text.color": paper.ink,
        "axes.edgecolor": paper.rule,
        "axes.labelcolor": paper.muted,
        "axes.facecolor": paper.ground,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "figure.facecolor": paper.ground,
        "xtick.color": paper.rule,
        "ytick.color": paper.rule,
        "xtick.labelcolor": paper.muted,
        "ytick.labelcolor": paper.muted,
        "grid.color": paper.rule,
        "grid.linewidth": 0.6,
    }
    with style.context(["default", own]):
        yield


def empty(width: float, height: float) -> Figure:
    """A figure of its own, in inches: pyplot would keep it in a list for all."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def png(figure: Figure) -> bytes:
    """The figure as PNG, without date or version."""
    from PIL import Image

    drawn, found = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI, pil_kwargs={"compress_level": 0})
    # A palette makes a quarter of the bytes, and a page holds each diagram twice.
    picture = Image.open(drawn).convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    picture.save(found, format="PNG", optimize=True)
    return found.getvalue()


def in_percent(axes: Axes, x: bool = True, y: bool = True) -> None:
    """Label shares from 0 to 1 in percent."""
    from matplotlib.ticker import PercentFormatter

    for axis, wanted in ((axes.xaxis, x), (axes.yaxis, y)):
        if wanted:
            axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
