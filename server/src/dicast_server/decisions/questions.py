"""What a caller asks, as plain values: the typed questions and the content that they are worded in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

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
class Question:
    """One question of a request. Index, key and name come back in the answer and never reach the model."""

    index: int
    key: str
    name: str | None
    instructions: Content | None
    type: QuestionType
