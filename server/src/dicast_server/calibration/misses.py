"""The worst misses for programs: a row each, with what was expected and all probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.calibration.metrics import worst
from dicast_server.calibration.prediction import Prediction
from dicast_server.decisions.questions import Choice, Predicate
from dicast_server.decisions.wording import option_names


def miss_rows(
    predictions: Sequence[Prediction], questions: Sequence[LabelledQuestion]
) -> list[dict[str, Any]]:
    """The 20 wrong answers whose labels had the least probability, worst first, as JSON.

    An option is named as in a file of labelled questions: true and false, a choice's name, the number of a
    level. Raises ValueError where the question of one is not among `questions`.
    """
    by_id = {question.id: question for question in questions}
    found = []
    for row in worst(predictions):
        if (asked := by_id.get(row.id)) is None:
            raise ValueError(f"there is no question {row.id!r}")
        names = _names(asked)
        found.append(
            {
                "id": row.id,
                "line": asked.line,
                "group": row.group,
                "type": row.kind,
                "expected": names[row.label],
                "answered": names[row.chosen],
                "probabilities": [
                    {"option": name, "probability": p}
                    for name, p in zip(names, row.probabilities, strict=True)
                ],
            }
        )
    return found


def _names(asked: LabelledQuestion) -> list[bool | str | int]:
    match asked.question.type:
        case Predicate():
            return [True, False]
        case Choice() as choice:
            return [*option_names(choice)]
        case _:
            return [*range(asked.options)]
