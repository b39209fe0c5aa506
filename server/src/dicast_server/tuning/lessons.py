"""From labelled questions to lessons: the very prompts that are served, in a model's tokens."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.calibration.rows import LeftOut
from dicast_server.decisions.answers import Answer
from dicast_server.decisions.passes import Scores
from dicast_server.decisions.questions import Choice
from dicast_server.engine.learning.lesson import Example, Lesson
from dicast_server.service.failures import Failure
from dicast_server.service.planning import Planner
from dicast_server.service.requests import AskedQuestion, DecisionRequest

LESSON_TOKENS = 1024
"""The most tokens of a lesson, where it has more than one example: attention takes their square."""


class CannotBeRead(Exception):
    """The readout asks for more than labels behind one prompt; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A labelled question in tokens; `options[k]` is the option that stands under label k."""

    question: LabelledQuestion
    prefix: tuple[int, ...]
    example: Example
    options: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """Lessons, what their examples are of in the same order, and the questions that cannot be read."""

    lessons: tuple[Lesson, ...]
    planned: tuple[Planned, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def rows(self) -> int:
        """How many examples there are."""
        return len(self.planned)


@dataclass(frozen=True, slots=True)
class Classroom:
    """Makes lessons of questions in the way that a planner's profile reads them."""

    planner: Planner

    def plan(self, question: LabelledQuestion) -> Planned | LeftOut:
        """One question; left out where the model cannot read it, as one that is too long.

        Raises:
            CannotBeRead: there is no single prompt with labels behind it.
        """
        request = DecisionRequest(question.state, (AskedQuestion(question.question),))
        try:
            work = self.planner.plan(request)
        except Failure as failure:
            return LeftOut(question.id, question.line, str(failure))
        passes = work.rounds.next_round()
        name = self.planner.profile.readout
        if len(passes) != 1:
            raise CannotBeRead(
                f"line {question.line}: the readout {name} reads {len(passes)} prompts, and tuning "
                "needs one: tune without a correction of the prior, and with at most 52 options"
            )
        (pass_,) = passes
        if not pass_.labels:
            raise CannotBeRead(f"the readout {name} reads whole replies, and tuning needs single labels")
        # Whatever was said: what comes back tells which option stands under which label.
        answers = work.rounds.receive(0, Scores((0.0,) * len(pass_.labels), 1.0))
        if len(answers) != 1 or answers[0].diagnostics is None:
            raise CannotBeRead(f"the readout {name} reads in more than one round, and tuning needs one")
        (prefix,) = work.prefixes
        options = _options(answers[0])
        right = options.index(question.label)
        return Planned(question, prefix, Example(pass_.tokens[len(prefix) :], pass_.labels, right), options)

    def lessons(self, questions: Sequence[LabelledQuestion]) -> Made:
        """Lessons of questions, those about one state together. Raises as `plan` does."""
        states: dict[tuple[int, ...], list[Planned]] = {}
        left_out: list[LeftOut] = []
        for question in questions:
            planned = self.plan(question)
            if isinstance(planned, LeftOut):
                left_out.append(planned)
            else:
                states.setdefault(planned.prefix, []).append(planned)
        made = [part for prefix, rows in states.items() for part in _cut(len(prefix), rows)]
        lessons = [Lesson(rows[0].prefix, tuple(row.example for row in rows)) for rows in made]
        return Made(tuple(lessons), tuple(row for rows in made for row in rows), tuple(left_out))


def reordered(question: LabelledQuestion, rng: random.Random) -> LabelledQuestion:
    """A choice with its options in another order; other questions have but one."""
    asked = question.question
    if not isinstance(asked.type, Choice):
        return question
    places = list(range(question.options))
    rng.shuffle(places)
    options = tuple(asked.type.options[place] for place in places)
    return replace(
        question,
        question=replace(asked, type=replace(asked.type, options=options)),
        label=places.index(question.label),
    )


def _options(answer: Answer) -> tuple[int, ...]:
    assert answer.diagnostics is not None
    (read,) = answer.diagnostics.passes
    return read.options


def _cut(prefix: int, rows: Sequence[Planned]) -> list[list[Planned]]:
    """Lessons of at most LESSON_TOKENS tokens."""
    parts: list[list[Planned]] = []
    size = 0
    for row in rows:
        tokens = len(row.example.tail)
        if not parts or size + tokens > LESSON_TOKENS:
            parts.append([])
            size = prefix
        parts[-1].append(row)
        size += tokens
    return parts
