"""What comes back: answers, the decision that holds them, and the events of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from dicast._diagnostics import Diagnostics
from dicast._errors import ServerError, Unanswered


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What every answer has.

    Attributes:
        key: of the question.
        index: of the question in its request, from 0.
        name: of the question, where it has one.
        diagnostics: where the request asked for them.
    """

    key: str
    index: int
    name: str | None = None
    diagnostics: Diagnostics | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PredicateAnswer(_Answer):
    """The answer to a predicate. It has no confidence: `abs(2 * probability - 1)` is one.

    Attributes:
        probability: that the statement is true, in [0, 1].
    """

    probability: float

    @property
    def value(self) -> bool:
        """Whether the probability is 0.5 or more."""
        return self.probability >= 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceAnswer(_Answer):
    """The answer to a choice.

    Attributes:
        value: the most probable option; of equal ones the first.
        confidence: in [0, 1]: (max p - 1/n) / (1 - 1/n). Not the probability of the choice.
        probabilities: of all options, by value, in the order of the request; they sum to 1.
    """

    value: str | bool
    confidence: float
    probabilities: Mapping[str | bool, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreAnswer(_Answer):
    """The answer to a score.

    Attributes:
        score: the expected level, in [0, n - 1].
        confidence: in [0, 1]: max(0, 1 - D/U), D the mean distance to the mode, U that of a uniform scale.
        probabilities: of all levels, lowest first; they sum to 1.
        labels: of all levels, None where the request gave none.
    """

    score: float
    confidence: float
    probabilities: tuple[float, ...]
    labels: tuple[str | None, ...]

    @property
    def value(self) -> int:
        """The most probable level, from 0; of equal ones the lowest. It is what `ask_if` compares."""
        return self.probabilities.index(max(self.probabilities))


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped(_Answer):
    """Stands for a question whose condition did not hold.

    Attributes:
        because: key of the question that decided it.
        was: that question's answer. None: it was itself skipped or refused.
    """

    because: str
    was: bool | str | int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(_Answer):
    """Stands for a question that could not be answered; the others still are.

    Attributes:
        reason: for programs.
        message: for people.
        would_be: the answer that was less certain than `Abstain` asks for; that of a plugin's question as the
            type that it was read as. None: there is none.
    """

    reason: Literal["abstained", "not_finite", "not_supported", "unspecified"]
    message: str
    would_be: PredicateAnswer | ChoiceAnswer | ScoreAnswer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionAnswer(_Answer):
    """The answer to a question of a server's plugin.

    Attributes:
        type: of the question.
        json: the answer, one JSON value as text.
    """

    type: str
    json: str


Answer: TypeAlias = "PredicateAnswer | ChoiceAnswer | ScoreAnswer | Skipped | Refused | ExtensionAnswer"
"""The answer to one question."""

_A = TypeVar("_A", PredicateAnswer, ChoiceAnswer, ScoreAnswer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of a request; padding never counts.

    Attributes:
        input_tokens: of the prompts: the shared prefix once, and all tails.
        cached_tokens: of them, out of the prefix store.
        computed_tokens: of them, computed: input_tokens - cached_tokens.
        output_tokens: 0, nothing is generated.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    computed_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What belongs to a request as a whole.

    Attributes:
        model: that answered: its real id, never an alias.
        usage: token counts.
        request_id: as in the server's log.
        elapsed_s: seconds from the arrival of the request to its end, waiting included.
    """

    model: str
    usage: Usage
    request_id: str
    elapsed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Summary):
    """The answers to one request, in the order of its questions, those that were not asked left out.

    `decision["route"]` and `decision[0]` give an answer of any kind; `decision.choice("route")` and its
    like give it with its type. Iterating gives the answers.

    Attributes:
        answers: one for each question that was asked.
    """

    answers: tuple[Answer, ...]

    def __getitem__(self, key: str | int) -> Answer:
        if isinstance(key, int):
            return self.answers[key]
        for answer in self.answers:
            if answer.key == key:
                return answer
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return any(answer.key == key for answer in self.answers)

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    def predicate(self, key: str | int) -> PredicateAnswer:
        """The answer to a predicate.

        Raises:
            Unanswered: the question was skipped or refused.
            TypeError: the question is of another type.
            KeyError: there is no such question.
        """
        return _typed(self[key], PredicateAnswer)

    def choice(self, key: str | int) -> ChoiceAnswer:
        """The answer to a choice; raises like `predicate`."""
        return _typed(self[key], ChoiceAnswer)

    def score(self, key: str | int) -> ScoreAnswer:
        """The answer to a score; raises like `predicate`."""
        return _typed(self[key], ScoreAnswer)


@dataclass(frozen=True, slots=True)
class Answered:
    """A question of a request on a stream was answered."""

    id: str
    answer: Answer


@dataclass(frozen=True, slots=True)
class Completed:
    """All answers of a request on a stream were sent."""

    id: str
    summary: Summary


@dataclass(frozen=True, slots=True)
class Failed:
    """A request on a stream failed as a whole; the stream goes on. `error` can be raised."""

    id: str
    error: ServerError


Event: TypeAlias = "Answered | Completed | Failed"
"""What a stream yields; `id` is the request's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prewarmed:
    """What `prewarm` kept.

    Attributes:
        model: that read the state.
        prefix_tokens: length of the state's prefix.
        cached_tokens: of it, were in the store before.
        kept: whether the whole prefix is in the store now.
        reason: why it was not kept. Empty where it was.
        request_id: as in the server's log.
    """

    model: str
    prefix_tokens: int
    cached_tokens: int
    kept: bool
    reason: str
    request_id: str


def _typed(answer: Answer, kind: type[_A]) -> _A:
    if isinstance(answer, kind):
        return answer
    if isinstance(answer, Skipped):
        raise Unanswered(f"question {answer.key!r} was skipped because of {answer.because!r}", answer)
    if isinstance(answer, Refused):
        raise Unanswered(f"question {answer.key!r} was refused: {answer.message}", answer)
    raise TypeError(f"question {answer.key!r} has a {type(answer).__name__}, not a {kind.__name__}")
