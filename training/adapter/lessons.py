"""Lessons: a state with its questions in a model's tokens, and forwards of several of them. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

MOST_QUESTIONS = 7
"""Questions of one row: each sees the state and itself, and attention takes the square of all."""

MOST_PREFIX = 300
"""Tokens of a state that are learned from; none of ours is longer, but for the rarest."""

Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Question:
    """A question behind its state.

    Attributes:
        tail: its tokens, behind those of the prefix.
        spans: of the state, which is in the prefix, and of what is asked and of each option, which are in the
            tail; as positions in prefix and tail together.
        kind: noul, choice or score.
        right: place of the right option.
    """

    tail: tuple[int, ...]
    spans: tuple[Span, ...]
    kind: str
    right: int


@dataclass(frozen=True, slots=True)
class Lesson:
    """Questions that begin with the same tokens."""

    prefix: tuple[int, ...]
    questions: tuple[Question, ...]

    @property
    def size(self) -> int:
        """All its tokens; those of the prefix count once."""
        return len(self.prefix) + sum(len(question.tail) for question in self.questions)


@dataclass(frozen=True, slots=True)
class Forward:
    """Lessons side by side, padded at the right.

    Attributes:
        tokens: ids (rows, width), int64.
        places: positions (rows, width), int64: each question goes on behind its prefix.
        visible: (rows, 1, width, width), bool: a token sees those before it, of the prefix and of its own
            question.
        spans: (spans, 3), int64: row, first token, token behind the last; question by question.
        questions: whose they are.
    """

    tokens: NDArray[np.int64]
    places: NDArray[np.int64]
    visible: NDArray[np.bool_]
    spans: NDArray[np.int64]
    questions: tuple[Question, ...]


def write(path: Path, lessons: Sequence[Lesson]) -> None:
    """Write a file, a lesson a line; it is there as a whole or not at all."""
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("w", encoding="ascii") as file:
        for lesson in lessons:
            questions = [[each.tail, each.spans, each.kind, each.right] for each in lesson.questions]
            file.write(json.dumps([lesson.prefix, questions]) + "\n")
    temporary.rename(path)


def read(path: Path) -> list[Lesson]:
    """What `write` wrote."""
    found = []
    for line in path.read_text("ascii").splitlines():
        prefix, questions = json.loads(line)
        found.append(
            Lesson(
                tuple(prefix),
                tuple(
                    Question(tuple(tail), tuple((first, end) for first, end in spans), kind, right)
                    for tail, spans, kind, right in questions
                ),
            )
        )
    return found


def cut(lessons: Sequence[Lesson]) -> list[Lesson]:
    """Lessons of at most MOST_QUESTIONS, without those whose state is too long."""
    return [
        Lesson(lesson.prefix, lesson.questions[start : start + MOST_QUESTIONS])
        for lesson in lessons
        if len(lesson.prefix) <= MOST_PREFIX
        for start in range(0, len(lesson.questions), MOST_QUESTIONS)
    ]


def forwards(lessons: Sequence[Lesson], most_tokens: int) -> Iterator[Forward]:
    """All lessons, the shortest first, in forwards of so many tokens, padding included."""
    together: list[Lesson] = []
    for lesson in sorted(lessons, key=lambda each: each.size):
        if together and (len(together) + 1) * lesson.size > most_tokens:
            yield _forward(together)
            together = []
        together.append(lesson)
    if together:
        yield _forward(together)


def _forward(lessons: Sequence[Lesson]) -> Forward:
    rows, width = len(lessons), max(lesson.size for lesson in lessons)
    tokens, places = np.zeros((rows, width), np.int64), np.zeros((rows, width), np.int64)
    # Which question a token is of: -1 the prefix, -2 padding, which sees itself alone.
    owner = np.full((rows, width), -2)
    spans: list[tuple[int, int, int]] = []
    for row, lesson in enumerate(lessons):
        begun = len(lesson.prefix)
        tokens[row, :begun], places[row, :begun], owner[row, :begun] = lesson.prefix, range(begun), -1
        end = begun
        for number, question in enumerate(lesson.questions):
            here = slice(end, end + len(question.tail))
            tokens[row, here], owner[row, here] = question.tail, number
            places[row, here] = range(begun, begun + len(question.tail))
            moved = end - begun
            state, *others = question.spans
            spans += [(row, *state), *((row, first + moved, end_ + moved) for first, end_ in others)]
            end = here.stop
    earlier = np.tril(np.ones((width, width), bool))
    seen = (owner[:, None, :] == owner[:, :, None]) | (owner[:, None, :] == -1) & (owner[:, :, None] != -2)
    visible = earlier & seen & (owner[:, :, None] != -2) | np.eye(width, dtype=bool)
    questions = tuple(question for lesson in lessons for question in lesson.questions)
    return Forward(tokens, places, visible[:, None], np.array(spans, np.int64), questions)
