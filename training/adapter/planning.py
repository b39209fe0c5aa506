"""From rows to lessons: the very prompts that are served, through the server's own planner."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

from dicast_server.calibration.dataset import read_dataset
from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.decisions.passes import Pass
from dicast_server.decisions.questions import Choice, Predicate
from dicast_server.service.planning import Planner
from dicast_server.service.requests import AskedQuestion, DecisionRequest
from training.adapter.lessons import Lesson, Question


def lessons(planner: Planner, path: Path) -> list[Lesson]:
    """All rows of a file of labelled questions, those about one state together, in the file's order.

    Raises:
        Failure: a row cannot be read.
    """
    passes: dict[str, list[tuple[LabelledQuestion, Pass]]] = {}
    for row in read_dataset(path).questions:
        work = planner.plan(DecisionRequest(row.state, (AskedQuestion(row.question),)))
        (pass_,) = work.rounds.next_round()
        passes.setdefault(row.group or row.id, []).append((row, pass_))
    return [_lesson(rows) for rows in passes.values()]


def _lesson(rows: Sequence[tuple[LabelledQuestion, Pass]]) -> Lesson:
    # What is asked begins behind the prefix, whose end is in the text between the state and it.
    asked = min(pass_.spans[1][0] for _, pass_ in rows)
    behind = max(pass_.spans[0][1] for _, pass_ in rows) if len(rows) == 1 else asked
    prefix = _common(pass_.tokens[:behind] for _, pass_ in rows)
    assert all(pass_.spans[0][1] <= len(prefix) for _, pass_ in rows), rows[0][0].id
    return Lesson(
        prefix,
        tuple(
            Question(pass_.tokens[len(prefix) :], pass_.spans, _kind(row), row.label) for row, pass_ in rows
        ),
    )


def _common(every: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """The longest beginning that all have."""
    return tuple(
        places[0]
        for places in itertools.takewhile(lambda each: len(set(each)) == 1, zip(*every, strict=False))
    )


def _kind(row: LabelledQuestion) -> str:
    if isinstance(row.question.type, Predicate):
        return "noul"
    return "choice" if isinstance(row.question.type, Choice) else "score"
