"""Questions in three parts, whole groups each: learned from, stopped by, judged on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.tuning.checks import NotLearnable

STOPPING, JUDGED = 0.10, 0.15
"""Shares of the rows, or a little more, since groups are whole."""
LEAST_GROUPS = 2


@dataclass(frozen=True, slots=True)
class Parts:
    """Questions that are learned from, those that say when to stop, and those that neither has seen."""

    learned: tuple[LabelledQuestion, ...]
    stopping: tuple[LabelledQuestion, ...]
    judged: tuple[LabelledQuestion, ...]


def part(questions: Sequence[LabelledQuestion]) -> Parts:
    """Cut by groups in the order of the SHA-256 of their names, whatever the order of the rows.

    Raises:
        NotLearnable: there are too few groups.
    """
    groups: dict[str, list[LabelledQuestion]] = {}
    for question in questions:
        groups.setdefault(question.group, []).append(question)
    ordered = sorted(groups, key=lambda group: hashlib.sha256(group.encode()).digest())
    stopping, rest = _taken(groups, ordered, STOPPING * len(questions))
    judged, learned = _taken(groups, rest, JUDGED * len(questions))
    parts = Parts(*(tuple(_rows(groups, names)) for names in (learned, stopping, judged)))
    if len(judged) < LEAST_GROUPS or 2 * len(parts.learned) < len(questions):
        raise NotLearnable(
            f"the rows are of {len(groups)} groups, too few to hold some out: rows about one state share a "
            "group, and there should be twenty or more"
        )
    return parts


def _taken(
    groups: Mapping[str, Sequence[LabelledQuestion]], names: Sequence[str], rows: float
) -> tuple[Sequence[str], Sequence[str]]:
    """The first groups that have so many rows together, LEAST_GROUPS at least, and the others."""
    count = 0
    while count < len(names) and (count < LEAST_GROUPS or len(_rows(groups, names[:count])) < rows):
        count += 1
    return names[:count], names[count:]


def _rows(groups: Mapping[str, Sequence[LabelledQuestion]], names: Sequence[str]) -> list[LabelledQuestion]:
    return [question for name in names for question in groups[name]]
