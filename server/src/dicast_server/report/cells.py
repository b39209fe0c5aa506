"""What holds for each type and band of option counts, with what a fit applies there."""

from __future__ import annotations

from collections.abc import Sequence

from dicast_server.calibration.judged import Judged
from dicast_server.calibration.kinds import BANDS, KINDS, Band, Kind, band_of
from dicast_server.calibration.prediction import Prediction
from dicast_server.calibration.table import Entry, Table
from dicast_server.report.contents import Cell, Held


def cells_of(columns: Sequence[Sequence[Prediction]], table: Table | None = None) -> tuple[Cell, ...]:
    """A cell for each type and band that has rows, types in their order, fewest options first.

    The columns are of the same rows. `table` is that of a fit.
    """
    found = []
    for kind in KINDS:
        for band in BANDS:
            inside = [[row for row in column if _in(row, kind, band)] for column in columns]
            if not inside[0]:
                continue
            applied, whose = None, ""
            if table is not None:
                applied, whose = table.of(kind, band.low), _whose(table.entry_of(kind, band.low))
            found.append(Cell(kind, band, len(inside[0]), tuple(map(_held, inside)), applied, whose))
    return tuple(found)


def _in(row: Prediction, kind: Kind, band: Band) -> bool:
    return row.kind == kind and band_of(len(row.probabilities)) == band


def _held(rows: Sequence[Prediction]) -> Held:
    judged = Judged.of(rows)
    return Held(float(judged.top.mean()), float(judged.right.mean()), float(judged.loss.mean()))


def _whose(entry: Entry | None) -> str:
    if entry is None:
        return "nothing is fitted"
    if entry.band is not None:
        return "of this band"
    return "of this type" if entry.kind is not None else "of all"
