"""Which questions of a request are asked when: those that wait for the answers of others, and skips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dicast_server.decisions.questions import Outcome, Question


@dataclass(frozen=True, slots=True)
class Skip:
    """A question whose condition did not hold: the question that decided it, and how that came out.

    `was` is None where that one was itself skipped or refused.
    """

    question: Question
    because: Question
    was: Outcome | None


@dataclass(slots=True)
class Stages:
    """Hands out questions as soon as all those that they wait for are done.

    A question is skipped where its first condition that fails does so, in the order of its conditions; a
    skipped or refused question satisfies none. There must be no cycle.
    """

    waiting: list[Question]
    _done: dict[int, Outcome | None] = field(default_factory=dict)
    _questions: dict[int, Question] = field(default_factory=dict)
    # By question: those that it still waits for, and those that wait for it. A request may have tens of
    # thousands of conditions, and the engine's thread must not go through them all again and again.
    _missing: dict[int, set[int]] = field(default_factory=dict)
    _behind: dict[int, list[int]] = field(default_factory=dict)
    _free: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._questions = {question.index: question for question in self.waiting}
        for question in self.waiting:
            missing = {condition.question for condition in question.ask_if}
            self._missing[question.index] = missing
            for other in missing:
                self._behind.setdefault(other, []).append(question.index)
            if not missing:
                self._free.append(question.index)

    def done(self, question: Question, outcome: Outcome | None) -> None:
        """A question came out; None where it was refused."""
        self._done[question.index] = outcome
        for index in self._behind.get(question.index, ()):
            self._missing[index].discard(question.index)
            if not self._missing[index]:
                self._free.append(index)

    def ready(self) -> tuple[list[Question], list[Skip]]:
        """The questions to ask now and those that are skipped, each told once."""
        asked: list[Question] = []
        skipped: list[Skip] = []
        while self._free:
            question = self._questions[self._free.pop(0)]
            if (skip := self._skip(question)) is None:
                asked.append(question)
            else:
                # Those that wait for it may be skipped by that.
                skipped.append(skip)
                self.done(question, None)
        return asked, skipped

    def _skip(self, question: Question) -> Skip | None:
        for condition in question.ask_if:
            was = self._done[condition.question]
            if was is None or was not in condition.any_of:
                return Skip(question, self._questions[condition.question], was)
        return None


def find_cycle(questions: Sequence[Question]) -> list[Question]:
    """The questions that wait for each other in a circle, or for one that does; mostly none."""
    # In one pass over the conditions: a request may have tens of thousands.
    held = {question.index: {condition.question for condition in question.ask_if} for question in questions}
    waiting: dict[int, list[int]] = {}
    for index, others in held.items():
        for other in others:
            waiting.setdefault(other, []).append(index)
    free = [index for index, others in held.items() if not others]
    while free:
        done = free.pop()
        for index in waiting.get(done, ()):
            held[index].discard(done)
            if not held[index]:
                free.append(index)
    return [question for question in questions if held[question.index]]
