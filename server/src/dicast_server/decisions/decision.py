"""A decision in flight: which passes a request's questions wait for, and which answers are ready."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from dicast_server.calibration.offset import shifted
from dicast_server.decisions.answers import (
    Abstain,
    Answer,
    Diagnostics,
    Guarantee,
    PassDiagnostics,
    RefusalReason,
    Refused,
    Skipped,
    Temperature,
    abstained,
    certainty,
    outcome,
)
from dicast_server.decisions.confidence import Spread
from dicast_server.decisions.passes import Pass, Prompt, Reading, Reads, Scores
from dicast_server.decisions.questions import Outcome, Predicate, Question
from dicast_server.decisions.stages import Stages
from dicast_server.decisions.types import AnswerType, read_as


@dataclass(frozen=True, slots=True)
class PlannedQuestion:
    """A question, its type, the generator that reads it, and what its answer says about the reading.

    `prompts` are those that the generator has yielded already. `guarantee` is what the caller's largest error
    takes of this question.
    """

    question: Question
    type: AnswerType
    reads: Reads
    prompts: tuple[Prompt, ...]
    readout: str
    profile: str
    prompt_version: str
    temperature: Temperature
    guarantee: Guarantee | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """What all answers of a request come from: the model's id, the hash of its weights and of the state."""

    model: str = ""
    weights_hash: str = ""
    state_hash: str = ""


@dataclass(slots=True)
class _Open:
    """A question that waits to be asked, or for the scores of its current prompts."""

    plan: PlannedQuestion
    prompts: tuple[Prompt, ...]
    passes: tuple[Pass, ...] = ()
    received: dict[int, Scores] = field(default_factory=dict)
    history: list[tuple[Prompt, Pass, Scores]] = field(default_factory=list)


Compile = Callable[[Sequence[tuple[Question, Prompt]]], Sequence[Pass]]
"""Turns prompts into passes of the model at hand, one a prompt; raises where one cannot be read."""


class Decision:
    """Drives the questions of one request side by side, round by round.

    A round is all pending passes of all questions that can be asked now, so that they can share forwards.
    A question waits for those that its conditions name, and is skipped where they fail. `compile_later` takes
    the place of `compile` once the first round is prepared.
    """

    def __init__(
        self,
        questions: Sequence[PlannedQuestion],
        compile: Compile,
        abstain: Abstain | None = None,
        origin: Origin | None = None,
        compile_later: Compile | None = None,
    ) -> None:
        self._compile = compile
        self._compile_later = compile_later or compile
        self._abstain = abstain or Abstain()
        self._origin = origin or Origin()
        self._stages = Stages([plan.question for plan in questions])
        self._held = {plan.question.index: _Open(plan, plan.prompts) for plan in questions}
        self._waiting: list[_Open] = []
        self._owners: list[tuple[_Open, int]] = []
        self._advance()

    def prepare(self) -> tuple[Pass, ...]:
        """Compile what is not compiled yet, also of questions that wait for others, without starting it.

        Called before the first round, it finds all that cannot be read before anything is.
        """
        compile, self._compile = self._compile, self._compile_later
        missing = [opened for opened in (*self._waiting, *self._held.values()) if not opened.passes]
        asked = [(opened.plan.question, prompt) for opened in missing for prompt in opened.prompts]
        compiled = iter(compile(asked) if asked else ())
        for opened in missing:
            opened.passes = tuple(next(compiled) for _ in opened.prompts)
        return tuple(pass_ for opened in missing for pass_ in opened.passes)

    def next_round(self) -> tuple[Pass, ...]:
        """Start the next round: its passes, or nothing when every question has its answer."""
        self.prepare()
        # In their order, whatever was answered first.
        waiting = sorted(self._waiting, key=lambda opened: opened.plan.question.index)
        self._waiting = []
        self._owners = [(opened, place) for opened in waiting for place in range(len(opened.prompts))]
        return tuple(opened.passes[place] for opened, place in self._owners)

    def receive(self, index: int, scores: Scores) -> Sequence[Answer]:
        """Take the scores of pass `index` of the current round.

        Returns the answer of its question where these scores were the last that it waited for, and those
        of the questions that are skipped by it. Each pass of a round is received once, in any order.
        """
        opened, place = self._owners[index]
        lengths = tuple(map(len, opened.passes[place].candidates))
        opened.received[place] = replace(scores, lengths=lengths)
        if len(opened.received) < len(opened.prompts):
            return ()
        in_order = tuple(opened.received[place] for place in range(len(opened.prompts)))
        opened.history += zip(opened.prompts, opened.passes, in_order, strict=True)
        question = opened.plan.question
        if not all(scores.finite for scores in in_order):
            opened.plan.reads.close()
            return self._done(Answer(question, _NOT_FINITE, self._diagnostics(opened, None)), None)
        try:
            opened.prompts = opened.plan.reads.send(in_order)
        except StopIteration as finished:
            return self._done(*self._answer(opened, finished.value))
        except BaseException as error:
            if isinstance(error, Exception):
                raise
            # The fault of one request, not of the thread that the model lives on.
            raise RuntimeError(f"{type(error).__name__} out of the readout {opened.plan.readout}") from error
        if not opened.prompts:
            raise ValueError(f"the readout {opened.plan.readout} went on without a prompt")
        opened.passes, opened.received = (), {}
        self._waiting.append(opened)
        return ()

    def _answer(self, opened: _Open, reading: Reading) -> tuple[Answer, Outcome | None]:
        plan = opened.plan
        question = plan.question
        _check(reading.probabilities, question.options, plan.readout)
        if isinstance(question.type, Predicate):
            true = shifted(reading.probabilities[0], plan.temperature.offset)
            reading = replace(reading, probabilities=(true, 1.0 - true))
        probabilities = reading.probabilities
        diagnostics = self._diagnostics(opened, reading)
        refusal = abstained(
            certainty(question, probabilities), diagnostics.option_mass, self._abstain, plan.guarantee
        )
        if refusal is not None:
            refusal = replace(refusal, would_be=read_as(question, probabilities))
            return Answer(question, refusal, diagnostics), None
        try:
            kind = plan.type.answer(question, probabilities)
        except BaseException as error:
            if isinstance(error, Exception):
                raise
            raise RuntimeError(f"{type(error).__name__} out of the type {plan.type.name}") from error
        return Answer(question, kind, diagnostics), outcome(question, probabilities)

    def _done(self, answer: Answer, outcome: Outcome | None) -> list[Answer]:
        self._stages.done(answer.question, outcome)
        return [answer, *self._advance()]

    def _advance(self) -> list[Answer]:
        """Move what can be asked now into the next round; the answers of what never will be."""
        ready, skipped = self._stages.ready()
        self._waiting += [self._held.pop(question.index) for question in ready]
        for skip in skipped:
            self._held.pop(skip.question.index).plan.reads.close()
        return [Answer(skip.question, Skipped(skip.because.key, skip.was), None) for skip in skipped]

    def _diagnostics(self, opened: _Open, reading: Reading | None) -> Diagnostics:
        plan, history = opened.plan, opened.history
        own = [scores.mass for prompt, _, scores in history if not prompt.prior]
        done = reading or Reading(())
        raws = done.scores or [scores.values for _, _, scores in history]
        return Diagnostics(
            readout=plan.readout,
            profile=plan.profile,
            prompt_version=plan.prompt_version,
            option_mass=sum(own) / max(1, len(own)),
            temperature=plan.temperature,
            forwards=len({number for _, _, scores in history for number in scores.forwards}),
            tokens=sum(pass_.size for _, pass_, _ in history),
            orders=done.orders,
            order_spread=done.order_spread,
            prior_corrected=done.prior_corrected,
            length_normalized=done.length_normalized,
            score_kind=_score_kind([prompt for prompt, _, _ in history]),
            spread=Spread.of(reading.probabilities) if reading is not None else None,
            confidence_formula=plan.type.confidence_formula,
            prompt_hash=prompt_hash(self._origin, [pass_ for _, pass_, _ in history]),
            state_hash=self._origin.state_hash,
            passes=tuple(
                PassDiagnostics(prompt.options, raw, pass_.scored, prompt.prior)
                for (prompt, pass_, _), raw in zip(history, raws, strict=True)
            ),
        )


def _check(probabilities: Sequence[float], options: int, readout: str) -> None:
    """Readouts come from other packages too: what is no distribution must not be sent as one."""
    if len(probabilities) != options:
        raise ValueError(
            f"the readout {readout} gave {len(probabilities)} probabilities for {options} options"
        )
    if not all(0.0 <= each <= 1.0 for each in probabilities) or abs(math.fsum(probabilities) - 1.0) > 1e-6:
        raise ValueError(f"the readout {readout} gave probabilities that are no distribution")


def _score_kind(prompts: Sequence[Prompt]) -> str:
    """What the raw scores are."""
    if any(prompt.spans for prompt in prompts):
        return "pooled_score"
    return "sequence_log_probability_including_eos" if any(p.whole for p in prompts) else "candidate_logit"


_NOT_FINITE = Refused(
    RefusalReason.NOT_FINITE,
    "the model gave a score that is not a finite number; ask this question in other words",
)


def prompt_hash(origin: Origin, passes: Sequence[Pass]) -> str:
    """SHA-256 in hexadecimal of the model's id and weights hash, each ended by a zero byte, and of passes.

    A pass is its prompt's token ids, each a little-endian uint32, and then those of its candidates.
    """
    digest = hashlib.sha256(f"{origin.model}\0{origin.weights_hash}\0".encode())
    for pass_ in passes:
        for ids in (pass_.tokens, *pass_.candidates):
            digest.update(struct.pack(f"<{len(ids)}I", *ids))
    return digest.hexdigest()
