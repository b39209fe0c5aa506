"""What labelled questions must be to be learned from, found before a model is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dicast import jsontext
from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.decisions.questions import Choice, Content

MIN_ROWS = 50
_SHOWN = 20


class NotLearnable(ValueError):
    """The questions cannot be learned from; the message says why, with the lines of the file."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Questions to learn from, each once, and how many more said the same again."""

    questions: tuple[LabelledQuestion, ...]
    repeated: int


def check(questions: Sequence[LabelledQuestion]) -> Checked:
    """Find what contradicts itself and what says nothing.

    Raises:
        NotLearnable: one question about one state has two answers, a type has one answer throughout, or
            fewer than MIN_ROWS different questions are left.
    """
    first: dict[str, LabelledQuestion] = {}
    conflicts: list[str] = []
    repeated = 0
    for question in questions:
        known = first.setdefault(_text(question), question)
        if known is question:
            continue
        repeated += 1
        if known.label != question.label:
            conflicts.append(f"line {question.line} contradicts line {known.line}: one question, two answers")
    if conflicts:
        more = [f"and {len(conflicts) - _SHOWN} more"] if len(conflicts) > _SHOWN else []
        raise NotLearnable("\n".join([*conflicts[:_SHOWN], *more]))
    kept = tuple(first.values())
    if len(kept) < MIN_ROWS:
        raise NotLearnable(f"{len(kept)} different questions are too few: {MIN_ROWS} are the least")
    for kind in sorted({question.kind for question in kept}):
        answers = {_answer(question) for question in kept if question.kind == kind}
        if len(answers) == 1:
            raise NotLearnable(
                f"every question of the type {kind} has the same answer, {answers.pop()}: that would be "
                "learned whatever the state says; add rows with other answers, or leave these out"
            )
    return Checked(kept, repeated)


def _answer(question: LabelledQuestion) -> str:
    """The right answer in words."""
    match question.question.type:
        case Choice(options=options):
            return repr(options[question.label].value)
        case _ if question.kind == "predicate":
            return "false" if question.label else "true"
        case _:
            return f"level {question.label}"


def _text(question: LabelledQuestion) -> str:
    """A state and a question without its name, told apart from all others."""
    return repr((_shown(question.state), _shown(question.question.instructions), question.question.type))


def _shown(content: Content | None) -> str:
    # A text and JSON that reads like it are not the same.
    return repr(content) if isinstance(content, str) or content is None else jsontext.render(content.value)
