"""From probabilities to the typed answer that a caller gets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from dicast_server.decisions import confidence
from dicast_server.decisions.passes import Reading
from dicast_server.decisions.questions import Choice, Predicate, Question


class RefusalReason(Enum):
    """Why a question has no answer."""

    ABSTAINED = "abstained"
    NOT_FINITE = "not finite"


class TemperatureSource(Enum):
    """Where a temperature came from, strongest first."""

    REQUEST = "request"
    SERVER = "server"
    FITTED = "fitted"
    PROFILE = "profile"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Temperature:
    """The number that scores are divided by, and where it came from."""

    value: float
    source: TemperatureSource


@dataclass(frozen=True, slots=True)
class Abstain:
    """The least certainty that a caller wants; both in [0, 1]."""

    min_confidence: float = 0.0
    min_option_mass: float = 0.0


@dataclass(frozen=True, slots=True)
class PredicateAnswer:
    """The probability that the statement is true."""

    probability: float

    @property
    def certainty(self) -> float:
        """|2p - 1|, what a predicate has instead of a confidence."""
        return abs(2.0 * self.probability - 1.0)


@dataclass(frozen=True, slots=True)
class ChoiceAnswer:
    """The chosen value, its confidence, and a probability an option in the order of the question."""

    value: str | bool
    confidence: float
    probabilities: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ScoreAnswer:
    """The expected level, its confidence, and a probability a level, lowest first."""

    score: float
    confidence: float
    probabilities: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A question without an answer; the message says why and what to do."""

    reason: RefusalReason
    message: str


Kind: TypeAlias = PredicateAnswer | ChoiceAnswer | ScoreAnswer | Refused


@dataclass(frozen=True, slots=True)
class PassDiagnostics:
    """The raw scores of one pass: logits, and the indices of the options that they belong to."""

    options: tuple[int, ...]
    scores: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """How an answer was read. The fields are those of dicast.v1.Diagnostics."""

    readout: str
    profile: str
    prompt_version: str
    option_mass: float
    temperature: Temperature
    forwards: int
    orders: int
    order_spread: float
    prompt_hash: str
    passes: tuple[PassDiagnostics, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question."""

    question: Question
    kind: Kind
    diagnostics: Diagnostics


def typed_answer(question: Question, reading: Reading) -> PredicateAnswer | ChoiceAnswer | ScoreAnswer:
    """The answer of a question's type from one probability an option."""
    probabilities = reading.probabilities
    if isinstance(question.type, Predicate):
        return PredicateAnswer(probabilities[0])
    if isinstance(question.type, Choice):
        chosen = question.type.options[confidence.mode(probabilities)]
        return ChoiceAnswer(chosen.value, confidence.choice_confidence(probabilities), probabilities)
    return ScoreAnswer(
        confidence.expected_level(probabilities), confidence.score_confidence(probabilities), probabilities
    )


def abstained(
    kind: PredicateAnswer | ChoiceAnswer | ScoreAnswer, option_mass: float, abstain: Abstain
) -> Refused | None:
    """The refusal that takes an answer's place where it is less certain than the caller wants."""
    certainty = kind.certainty if isinstance(kind, PredicateAnswer) else kind.confidence
    if certainty < abstain.min_confidence:
        return Refused(
            RefusalReason.ABSTAINED,
            f"confidence {certainty:.4g} is below the least that was asked for, {abstain.min_confidence:.4g}",
        )
    if option_mass < abstain.min_option_mass:
        return Refused(
            RefusalReason.ABSTAINED,
            f"option mass {option_mass:.4g} is below the least that was asked for, "
            f"{abstain.min_option_mass:.4g}",
        )
    return None
