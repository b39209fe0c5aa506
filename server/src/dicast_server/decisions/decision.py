"""A decision in flight: which passes a request's questions wait for, and which answers are ready."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dicast_server.decisions.answers import (
    Abstain,
    Answer,
    Diagnostics,
    PassDiagnostics,
    RefusalReason,
    Refused,
    Temperature,
    abstained,
    typed_answer,
)
from dicast_server.decisions.passes import Pass, Prompt, Reading, Reads, Scores
from dicast_server.decisions.questions import Question


@dataclass(frozen=True, slots=True)
class PlannedQuestion:
    """A question, the generator that reads it, and what its answer says about the reading."""

    question: Question
    reads: Reads
    readout: str
    profile: str
    prompt_version: str
    temperature: Temperature


@dataclass(slots=True)
class _Open:
    """A question that waits for the scores of its current prompts."""

    plan: PlannedQuestion
    prompts: tuple[Prompt, ...]
    received: dict[int, Scores] = field(default_factory=dict)
    history: list[tuple[Prompt, Pass, Scores]] = field(default_factory=list)


class Decision:
    """Drives the questions of one request side by side, round by round.

    A round is all pending passes of all questions, so that they can share forwards. `compile` turns
    prompts into passes of the model at hand, one a prompt; it is called once a round. `check` raises
    where a pass of a question cannot be read.
    """

    def __init__(
        self,
        questions: Sequence[PlannedQuestion],
        compile: Callable[[Sequence[Prompt]], Sequence[Pass]],
        abstain: Abstain | None = None,
        check: Callable[[Question, Pass], None] = lambda question, pass_: None,
    ) -> None:
        self._compile = compile
        self._check = check
        self._abstain = abstain or Abstain()
        self._waiting = [_Open(plan, next(plan.reads)) for plan in questions]
        self._owners: list[tuple[_Open, int]] = []
        self._passes: tuple[Pass, ...] = ()
        self._started: tuple[Pass, ...] = ()

    def prepare(self) -> tuple[Pass, ...]:
        """Compile and check the next round without starting it: the first one before it queues."""
        if not self._passes and self._waiting:
            waiting, self._waiting = self._waiting, []
            self._owners = [(opened, place) for opened in waiting for place in range(len(opened.prompts))]
            self._passes = tuple(self._compile([opened.prompts[place] for opened, place in self._owners]))
            for (opened, _), pass_ in zip(self._owners, self._passes, strict=True):
                self._check(opened.plan.question, pass_)
        return self._passes

    def next_round(self) -> tuple[Pass, ...]:
        """Start the next round: its passes, or nothing when every question has its answer."""
        self._started, self._passes = self.prepare(), ()
        return self._started

    def receive(self, index: int, scores: Scores) -> Answer | None:
        """Take the scores of pass `index` of the current round.

        Returns the answer of its question where these scores were the last that it waited for. Each pass
        of a round is received once, in any order.
        """
        opened, place = self._owners[index]
        opened.received[place] = scores
        opened.history.append((opened.prompts[place], self._started[index], scores))
        if len(opened.received) < len(opened.prompts):
            return None
        in_order = tuple(opened.received[place] for place in range(len(opened.prompts)))
        if not all(scores.finite for scores in in_order):
            opened.plan.reads.close()
            return Answer(opened.plan.question, _NOT_FINITE, _diagnostics(opened, Reading(())))
        try:
            opened.prompts = opened.plan.reads.send(in_order)
        except StopIteration as finished:
            return self._answer(opened, finished.value)
        opened.received = {}
        self._waiting.append(opened)
        return None

    def _answer(self, opened: _Open, reading: Reading) -> Answer:
        question = opened.plan.question
        diagnostics = _diagnostics(opened, reading)
        kind = typed_answer(question, reading)
        refusal = abstained(kind, diagnostics.option_mass, self._abstain)
        return Answer(question, refusal or kind, diagnostics)


_NOT_FINITE = Refused(
    RefusalReason.NOT_FINITE,
    "the model gave a score that is not a finite number; ask this question in other words",
)


def _diagnostics(opened: _Open, reading: Reading) -> Diagnostics:
    history = opened.history
    return Diagnostics(
        readout=opened.plan.readout,
        profile=opened.plan.profile,
        prompt_version=opened.plan.prompt_version,
        option_mass=sum(scores.mass for _, _, scores in history) / len(history),
        temperature=opened.plan.temperature,
        forwards=len({number for _, _, scores in history for number in scores.forwards}),
        orders=reading.orders,
        order_spread=reading.order_spread,
        prompt_hash=prompt_hash([pass_ for _, pass_, _ in history]),
        passes=tuple(PassDiagnostics(prompt.options, scores.values) for prompt, _, scores in history),
    )


def prompt_hash(passes: Sequence[Pass]) -> str:
    """SHA-256 in hexadecimal of the passes' token ids, each a little-endian uint32."""
    digest = hashlib.sha256()
    for pass_ in passes:
        digest.update(struct.pack(f"<{len(pass_.tokens)}I", *pass_.tokens))
    return digest.hexdigest()
