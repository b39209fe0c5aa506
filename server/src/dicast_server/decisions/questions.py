"""What a caller asks, as plain values: the typed questions and the content that they are worded in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from dicast import jsontext


@dataclass(frozen=True, slots=True)
class Json:
    """A parsed JSON value that stands where text may stand. Never null: null content is None."""

    value: jsontext.Value


Content: TypeAlias = str | Json
"""Text or JSON. `Content | None` is content that may be absent or null, which render alike."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A yes/no question; the criteria say what yes and no mean."""

    when_true: Content | None = None
    when_false: Content | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a choice. Values are compared with their type: "true" and True differ."""

    value: str | bool
    description: Content | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """A question for the one of several options that fits best."""

    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a scale: a label, a description or both."""

    label: str | None = None
    description: Content | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """A question for a level on an ordered scale, lowest first."""

    levels: tuple[Level, ...]


QuestionType: TypeAlias = Predicate | Choice | Score


@dataclass(frozen=True, slots=True)
class Outcome:
    """The value that an answer chose, with its kind: True is not level 1, and `"true"` is not True."""

    kind: Literal["bool", "string", "level"]
    value: bool | str | int


@dataclass(frozen=True, slots=True)
class Condition:
    """Gates a question: the one at index `question` of the request must come out as one of `any_of`."""

    question: int
    any_of: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Extension:
    """A question of a plugin's type: the type's name, and its own form of the question."""

    type: str
    body: Any


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a request. Index, key and name come back in the answer and never reach the model.

    `type` is what readouts see, also where an `extension` decides what becomes of the probabilities.
    """

    index: int
    key: str
    name: str | None
    instructions: Content | None
    type: QuestionType
    ask_if: tuple[Condition, ...] = ()
    extension: Extension | None = None

    @property
    def options(self) -> int:
        """How many options it has."""
        match self.type:
            case Predicate():
                return 2
            case Choice(options=options):
                return len(options)
            case Score(levels=levels):
                return len(levels)
