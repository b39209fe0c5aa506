"""A fitted table: which temperature and offset a question gets, from the most particular entry down."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from dicast_server.calibration.kinds import Band, Kind, band_of

MIN_TEMPERATURE = 0.05
MAX_TEMPERATURE = 20.0


class Applied(NamedTuple):
    """p = softmax(scores / temperature); a predicate's logit plus `offset` afterwards."""

    temperature: float
    offset: float


@dataclass(frozen=True, slots=True)
class Entry:
    """What questions of a kind and a band get. None stands for all: an entry of None, None is the root."""

    kind: Kind | None
    band: Band | None
    temperature: float
    offset: float
    rows: int


@dataclass(frozen=True, slots=True)
class Table:
    """Entries, and the temperature `base` where none applies: that of a server without a fit."""

    base: float
    entries: tuple[Entry, ...] = ()

    def of(self, kind: Kind, options: int) -> Applied:
        """What applies to a question of `options` options: that of its entry, else the base."""
        entry = self.entry_of(kind, options)
        return Applied(self.base, 0.0) if entry is None else Applied(entry.temperature, entry.offset)

    def entry_of(self, kind: Kind, options: int) -> Entry | None:
        """The entry of a question of `options` options: the band's, else the kind's, else the root."""
        for key in ((kind, band_of(options)), (kind, None), (None, None)):
            for entry in self.entries:
                if (entry.kind, entry.band) == key:
                    return entry
        return None

    def without(self, kind: Kind, rows: int) -> Table:
        """The same table, but a kind keeps the base; `rows` of it were looked at."""
        kept = tuple(entry for entry in self.entries if entry.kind != kind)
        if not kept:
            return replace(self, entries=())
        return replace(self, entries=(*kept, Entry(kind, None, self.base, 0.0, rows)))
