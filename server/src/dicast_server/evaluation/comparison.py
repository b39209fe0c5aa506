"""Figures of one system, or of two on the questions that both answered, with paired differences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dicast_server.calibration.dataset import Dataset
from dicast_server.calibration.document import Key
from dicast_server.calibration.judged import Judged
from dicast_server.calibration.kinds import KINDS, Kind
from dicast_server.calibration.metrics import DRAWS, Estimate, paired, summary
from dicast_server.calibration.misses import miss_rows
from dicast_server.calibration.prediction import Prediction
from dicast_server.calibration.rows import LeftOut


@dataclass(frozen=True, slots=True)
class System:
    """A system's predictions, and the rows that it has no answer to; `key` where it is a dicast server."""

    name: str
    predictions: Sequence[Prediction]
    left_out: Sequence[LeftOut]
    key: Key | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """All questions (`kind` is None) or those of a type.

    `figures` are of each system; `differences` are the second's less the first's, empty for one system.
    `uniform_log_loss` is that of equal probabilities.
    """

    kind: Kind | None
    rows: int
    figures: tuple[Mapping[str, Estimate], ...]
    differences: Mapping[str, Estimate]
    uniform_log_loss: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was measured; the systems have the same rows. The first part is about all questions."""

    systems: tuple[System, ...]
    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        """How many questions were judged."""
        return self.parts[0].rows

    def as_json(self, dataset: Dataset) -> dict[str, Any]:
        """All of it for programs; an estimate is its value and the ends of its interval."""
        return {
            "questions_sha256": dataset.sha256,
            "rows": self.rows,
            "systems": [
                {
                    "name": system.name,
                    "left_out": [
                        {"id": each.id, "line": each.line, "reason": each.reason} for each in system.left_out
                    ],
                    "misses": miss_rows(system.predictions, dataset.questions),
                }
                for system in self.systems
            ],
            "parts": [
                {
                    "type": part.kind,
                    "rows": part.rows,
                    "figures": [dict(each) for each in part.figures],
                    "differences": dict(part.differences),
                    "uniform_log_loss": part.uniform_log_loss,
                }
                for part in self.parts
            ],
        }


def evaluate(systems: Sequence[System], draws: int = DRAWS) -> Evaluation:
    """Judge systems on the questions that all of them answered.

    Raises:
        ValueError: there is no such question.
    """
    common = set.intersection(*({each.id for each in system.predictions} for system in systems))
    if not common:
        raise ValueError("no question was answered")
    same = [
        replace(system, predictions=[each for each in system.predictions if each.id in common])
        for system in systems
    ]
    kinds: list[Kind | None] = [None, *KINDS]
    parts = [_part(kind, [_of(system, kind) for system in same], draws) for kind in kinds]
    return Evaluation(tuple(same), tuple(part for part in parts if part is not None))


def _of(system: System, kind: Kind | None) -> list[Prediction]:
    return [each for each in system.predictions if kind is None or each.kind == kind]


def _part(kind: Kind | None, rows: Sequence[list[Prediction]], draws: int) -> Part | None:
    if not rows[0]:
        return None
    return Part(
        kind,
        len(rows[0]),
        tuple(summary(Judged.of(each), draws) for each in rows),
        paired(rows[0], rows[1], draws) if len(rows) > 1 else {},
        math.fsum(math.log(len(each.probabilities)) for each in rows[0]) / len(rows[0]),
    )
