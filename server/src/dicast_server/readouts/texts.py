"""The texts of a question that prompts are made of: instructions, and the options' names and descriptions."""

from __future__ import annotations

from dicast_server.decisions.questions import Choice, Predicate, Question
from dicast_server.decisions.wording import Wording, option_names

DEFAULT_INSTRUCTIONS = {
    "predicate": "Is the statement true?",
    "choice": "Which option fits best?",
    "score": "Which level fits best?",
}
DEFAULT_TRUE = "The statement is true."
DEFAULT_FALSE = "The statement is false."

NO_CONTENT = "N/A"
"""The state of a prompt that shows what the options score before anything is known."""


def instructions(question: Question, wording: Wording) -> str:
    """What is asked; a default text of the question's type where nothing is said."""
    if question.instructions is None:
        return DEFAULT_INSTRUCTIONS[type(question.type).__name__.lower()]
    return wording.instructions(question.instructions)


def option_lines(question: Question, wording: Wording) -> list[tuple[str, str]]:
    """The name and the description of each option, in the order of the question."""
    type_ = question.type
    if isinstance(type_, Predicate):
        return [
            ("yes", wording.description(type_.when_true) or DEFAULT_TRUE),
            ("no", wording.description(type_.when_false) or DEFAULT_FALSE),
        ]
    if isinstance(type_, Choice):
        descriptions = [wording.description(option.description) for option in type_.options]
        return list(zip(option_names(type_), descriptions, strict=True))
    return [(str(index), wording.level(level)) for index, level in enumerate(type_.levels)]
