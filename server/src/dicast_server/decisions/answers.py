"""What a caller gets for a question: a typed answer, a skip or a refusal, and how it was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from dicast_server.decisions import confidence
from dicast_server.decisions.questions import Choice, Outcome, Predicate, Question


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
    """The number that scores are divided by, and where it came from.

    `offset` is added to a predicate's logit afterwards; it is fitted together with the temperature.
    """

    value: float
    source: TemperatureSource
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class Abstain:
    """The least certainty that a caller wants; both in [0, 1].

    `max_error` is the largest share of errors among answered questions, in (0, 0.5], None for any: each
    question's calibration says which certainty that takes (`Guarantee`).
    """

    min_confidence: float = 0.0
    min_option_mass: float = 0.0
    max_error: float | None = None


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The least certainty under which the error among answered questions was bound by `max_error`."""

    max_error: float
    threshold: float


@dataclass(frozen=True, slots=True)
class PredicateAnswer:
    """The probability that the statement is true."""

    probability: float


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
class ExtensionAnswer:
    """The answer to a question of a plugin's type, in that type's own form: a value that JSON can say."""

    type: str
    value: Any


@dataclass(frozen=True, slots=True)
class Skipped:
    """A question that was not asked: `because` is the key of the one that decided it, `was` its outcome."""

    because: str
    was: Outcome | None


ProbableAnswer: TypeAlias = PredicateAnswer | ChoiceAnswer | ScoreAnswer


@dataclass(frozen=True, slots=True)
class Refused:
    """A question without an answer; the message says why and what to do.

    `would_be` is the answer that was not certain enough, that of a plugin's question as it was read.
    """

    reason: RefusalReason
    message: str
    would_be: ProbableAnswer | None = None


Kind: TypeAlias = PredicateAnswer | ChoiceAnswer | ScoreAnswer | ExtensionAnswer | Skipped | Refused


@dataclass(frozen=True, slots=True)
class PassDiagnostics:
    """The raw scores of one pass and the indices of the options that they belong to.

    `token_ids` are the tokens that were scored, a sequence an option; a `prior` is a pass about a state
    without content.
    """

    options: tuple[int, ...]
    scores: tuple[float, ...]
    token_ids: tuple[tuple[int, ...], ...]
    prior: bool


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """How an answer was read. The fields are those of dicast.v1.Diagnostics."""

    readout: str
    profile: str
    prompt_version: str
    option_mass: float
    temperature: Temperature
    forwards: int
    tokens: int
    orders: int
    order_spread: float
    prior_corrected: bool
    length_normalized: bool
    score_kind: str
    spread: confidence.Spread | None
    confidence_formula: str
    prompt_hash: str
    state_hash: str
    passes: tuple[PassDiagnostics, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question. One that was skipped was not read."""

    question: Question
    kind: Kind
    diagnostics: Diagnostics | None


def certainty(question: Question, probabilities: Sequence[float]) -> float:
    """What an answer's certainty is measured by, in [0, 1]: a predicate's |2p - 1|, else the confidence."""
    match question.type:
        case Predicate():
            return abs(2.0 * probabilities[0] - 1.0)
        case Choice():
            return confidence.choice_confidence(probabilities)
        case _:
            return confidence.score_confidence(probabilities)


def outcome(question: Question, probabilities: Sequence[float]) -> Outcome:
    """The value that conditions of other questions are compared with: the most probable option's."""
    match question.type:
        case Predicate():
            return Outcome("bool", probabilities[0] >= 0.5)
        case Choice(options=options):
            value = options[confidence.mode(probabilities)].value
            return Outcome("bool" if isinstance(value, bool) else "string", value)
        case _:
            return Outcome("level", confidence.mode(probabilities))


def abstained(
    certainty: float, option_mass: float, abstain: Abstain, guarantee: Guarantee | None = None
) -> Refused | None:
    """The refusal that takes an answer's place where it is less certain than the caller wants."""
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
    if guarantee is not None and certainty < guarantee.threshold:
        return Refused(
            RefusalReason.ABSTAINED,
            f"confidence {certainty:.4g} is below {guarantee.threshold:.4g}, the least under which the "
            f"calibration bounds the error by {guarantee.max_error:g}",
        )
    return None
