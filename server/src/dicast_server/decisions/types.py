"""Types of questions: what each makes of its options' probabilities. Other packages may bring more."""

from __future__ import annotations

from typing import Any, Protocol

from dicast import jsontext
from dicast_server.decisions import confidence
from dicast_server.decisions.answers import (
    ChoiceAnswer,
    Kind,
    PredicateAnswer,
    ProbableAnswer,
    ScoreAnswer,
)
from dicast_server.decisions.questions import Choice, Predicate, Question, QuestionType


class AnswerType(Protocol):
    """A type of question. Every type ends as a distribution over a closed set of options."""

    @property
    def name(self) -> str:
        """The type's name in the contract."""

    @property
    def confidence_formula(self) -> str:
        """The name of its confidence's formula, empty where it has none."""

    def answer(self, question: Question, probabilities: tuple[float, ...]) -> Kind:
        """The answer, from one probability an option in the order of the question."""


class ExtensionType(AnswerType, Protocol):
    """A type that another package brings under the entry-point group `dicast.question_types`.

    Its name begins with `x_`, so that no later version of the contract can take it.
    """

    def read(self, body: jsontext.Object) -> tuple[Any, QuestionType]:
        """A question in the type's own JSON: its own form of it, and what readouts are to ask.

        Raises:
            FieldError: something in the body is wrong.
        """


class FieldError(ValueError):
    """A field of a plugin's JSON is wrong; `path` leads to it from the plugin's body."""

    def __init__(self, path: jsontext.Path, message: str) -> None:
        super().__init__(message)
        self.path = path


def only(body: jsontext.Object, *names: str) -> None:
    """Raise FieldError where a body has other fields than these."""
    for name in body:
        if name not in names:
            raise FieldError((name,), f"is not known; there is {', '.join(names)}")


class PredicateType:
    """Yes or no."""

    name = "predicate"
    confidence_formula = ""

    def answer(self, question: Question, probabilities: tuple[float, ...]) -> PredicateAnswer:
        """The probability of yes."""
        return PredicateAnswer(probabilities[0])


class ChoiceType:
    """One of several options."""

    name = "choice"
    confidence_formula = "normalized_peak"

    def answer(self, question: Question, probabilities: tuple[float, ...]) -> ChoiceAnswer:
        """The most probable option, and all probabilities."""
        assert isinstance(question.type, Choice)
        chosen = question.type.options[confidence.mode(probabilities)]
        return ChoiceAnswer(chosen.value, confidence.choice_confidence(probabilities), probabilities)


class ScoreType:
    """A level of an ordered scale."""

    name = "score"
    confidence_formula = "mode_distance"

    def answer(self, question: Question, probabilities: tuple[float, ...]) -> ScoreAnswer:
        """The expected level, and all probabilities."""
        score = confidence.expected_level(probabilities)
        return ScoreAnswer(score, confidence.score_confidence(probabilities), probabilities)


PREDICATE = PredicateType()
CHOICE = ChoiceType()
SCORE = ScoreType()


def read_as(question: Question, probabilities: tuple[float, ...]) -> ProbableAnswer:
    """The answer in the terms of what was read: of a plugin's question too, which is one of our types."""
    match question.type:
        case Predicate():
            return PREDICATE.answer(question, probabilities)
        case Choice():
            return CHOICE.answer(question, probabilities)
        case _:
            return SCORE.answer(question, probabilities)
