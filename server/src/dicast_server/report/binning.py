"""The bins of a reliability diagram: of equal mass, few enough that each says something, with intervals."""

from __future__ import annotations

from dataclasses import dataclass

from dicast_server.calibration.binomial import upper_bound
from dicast_server.calibration.judged import Judged
from dicast_server.calibration.kinds import Kind
from dicast_server.calibration.reliability import BINS, Bin, reliability

ROWS_A_BIN = 25
"""With fewer a bin's interval spans half of the diagram."""

_TAIL = 0.025


@dataclass(frozen=True, slots=True)
class Spot:
    """A bin, and the exact 95 % interval (Clopper-Pearson) of how often it comes true.

    Rows count as independent draws here, other than in the figures, which draw groups: for a bin in which
    all came true, draws of its rows would have no interval at all.
    """

    bin: Bin
    low: float
    high: float


def spots(judged: Judged, kind: Kind | None) -> tuple[Spot, ...]:
    """The bins of a part, lowest first: of predicates p(true), else the chosen option's probability."""
    stated, came_true = (judged.true, judged.is_true) if kind == "predicate" else (judged.top, judged.right)
    bins = max(1, min(BINS, len(judged) // ROWS_A_BIN))
    return tuple(_spot(each) for each in reliability(stated, came_true, bins, equal_mass=True))


def _spot(found: Bin) -> Spot:
    hits = round(found.true * found.rows)
    low = 1.0 - upper_bound(found.rows - hits, found.rows, _TAIL)
    return Spot(found, low, upper_bound(hits, found.rows, _TAIL))
