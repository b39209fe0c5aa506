"""What a report tells, as plain values: `build` makes them, `write` shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dicast_server.calibration.conformal import Sets
from dicast_server.calibration.guarantee import Threshold
from dicast_server.calibration.judged import Judged
from dicast_server.calibration.kinds import Band, Kind
from dicast_server.calibration.metrics import Estimate
from dicast_server.calibration.table import Applied
from dicast_server.calibration.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class System:
    """A system that answered: its model's name, how it was read, and what else tells it from others."""

    model: str
    readout: str
    details: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """What was measured on what. `rows` were usable, and `left_out` were not.

    There are two systems where two are compared, else one.
    """

    dataset: str
    sha256: str
    rows: int
    date: datetime
    dicast_version: str
    systems: tuple[System, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Column:
    """One side of a part: before or after a fit, or one of two systems.

    `signal` is whether the answers are better than guessing.
    """

    judged: Judged
    figures: Mapping[str, Estimate]
    signal: bool


@dataclass(frozen=True, slots=True)
class Part:
    """All questions (`kind` is None) or those of a type.

    Attributes:
        columns: one or two, in the order of the report's labels.
        differences: of each figure, the second column less the first, paired; empty for one column.
        guess: the accuracy of always giving the most common label.
        thresholds: for abstaining, by wanted error.
        sets: conformal sets of options, by wanted error.
        verdict: what a fit found for the type; None for all questions and without a fit.
    """

    kind: Kind | None
    columns: tuple[Column, ...]
    differences: Mapping[str, Estimate]
    guess: float
    thresholds: tuple[Threshold, ...] = ()
    sets: tuple[Sets, ...] = ()
    verdict: Verdict | None = None

    @property
    def last(self) -> Column:
        """The column that the report is about: what is served after a fit, or the only one."""
        return self.columns[-1]


@dataclass(frozen=True, slots=True)
class Held:
    """Means over some rows: the stated probability, the share that is right, the log loss in nats."""

    stated: float
    right: float
    log_loss: float


@dataclass(frozen=True, slots=True)
class Cell:
    """Rows of a type and a band of option counts.

    `columns` are in the order of the report's labels. `applied` is what a fit gives such questions, and
    `whose` says on which rows that was fitted; None and empty without a fit.
    """

    kind: Kind
    band: Band
    rows: int
    columns: tuple[Held, ...]
    applied: Applied | None
    whose: str


@dataclass(frozen=True, slots=True)
class Tried:
    """A scheme that a fit tried, its held-out log loss in nats, and whether it is the one that was kept."""

    name: str
    loss: float
    kept: bool


@dataclass(frozen=True, slots=True)
class ShownOption:
    """An option of a miss."""

    text: str
    probability: float
    right: bool
    chosen: bool


@dataclass(frozen=True, slots=True)
class Miss:
    """A wrong answer with its texts. Options are most probable first; `more_options` are left out."""

    id: str
    kind: Kind
    line: int
    state: str
    state_left_out: int
    instructions: str
    options: tuple[ShownOption, ...]
    more_options: int


@dataclass(frozen=True, slots=True)
class Misses:
    """The worst of a column's `wrong` answers; `rows` are the same for programs (`calibration.misses`)."""

    label: str
    wrong: int
    worst: tuple[Miss, ...]
    rows: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A report.

    `labels` name the columns; one column has no need of its. Of `parts` the first is about all questions,
    and the others are about the types, where there is more than one; else the first is that type's. `cells`
    are by type and number of options; `tried` is empty without a fit.
    """

    title: str
    headline: str
    support: tuple[str, ...]
    facts: Facts
    labels: tuple[str, ...]
    parts: tuple[Part, ...]
    misses: tuple[Misses, ...]
    notes: tuple[str, ...] = ()
    cells: tuple[Cell, ...] = ()
    tried: tuple[Tried, ...] = ()
