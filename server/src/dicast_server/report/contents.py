"""What a report tells, as plain values: `build` makes them, `write` shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dicast_server.calibration.guarantee import Threshold
from dicast_server.calibration.judged import Judged
from dicast_server.calibration.kinds import Kind
from dicast_server.calibration.metrics import Estimate
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
        verdict: what a fit found for the type; None for all questions and without a fit.
    """

    kind: Kind | None
    columns: tuple[Column, ...]
    differences: Mapping[str, Estimate]
    guess: float
    thresholds: tuple[Threshold, ...] = ()
    verdict: Verdict | None = None

    @property
    def last(self) -> Column:
        """The column that the report is about: what is served after a fit, or the only one."""
        return self.columns[-1]


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
    """The worst of a column's `wrong` answers."""

    label: str
    wrong: int
    worst: tuple[Miss, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """A report.

    `labels` name the columns; one column has no need of its. Of `parts` the first is about all questions,
    and the others are about the types, where there is more than one; else the first is that type's.
    """

    title: str
    headline: str
    support: tuple[str, ...]
    facts: Facts
    labels: tuple[str, ...]
    parts: tuple[Part, ...]
    misses: tuple[Misses, ...]
    notes: tuple[str, ...] = ()
