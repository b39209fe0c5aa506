"""Labelled questions for scored rows and predictions, with texts of one's choice."""

from dicast_server.calibration.kinds import Kind
from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.decisions.questions import (
    Choice,
    Content,
    Level,
    Option,
    Predicate,
    Question,
    QuestionType,
    Score,
)


def question(
    name: str,
    kind: Kind,
    options: int,
    label: int = 0,
    *,
    state: Content = "Parcel 7 has not moved for nine days.",
    text: str = "",
) -> LabelledQuestion:
    """A question of a kind; `text` is part of all its texts."""
    types: dict[Kind, QuestionType] = {
        "predicate": Predicate(f"it is {text}", f"it is not {text}"),
        "choice": Choice(tuple(Option(f"team {index}{text}", text or None) for index in range(options))),
        "score": Score(tuple(Level(None, f"level {text}") for _ in range(options))),
    }
    asked = Question(0, name, None, f"What of parcel 7? {text}", types[kind])
    return LabelledQuestion(name, name, 3, state, asked, label)
