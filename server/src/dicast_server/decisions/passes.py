"""What a question sends to a model and what comes back: prompts, passes, scores, readings."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of a question: the user's message, and the labels that the reply may be, or spans to read.

    `options[k]` is the index of the option that stands under `labels[k]`. A label is the reply's first
    token; where they are `whole`, each is a whole reply and is scored token by token, the end of the turn
    included. `system` is the text of the system's message, empty for none. A `prior` shows a state without
    content: its scores are the same for every state, so they are kept across requests.

    A prompt with `spans` has no labels: nothing behind the message is read. They are ranges of the message's
    characters, (start, end): of the state, of the question, and of option `options[k]` that of place 2 + k.
    """

    message: str
    labels: tuple[str, ...]
    options: tuple[int, ...]
    system: str = ""
    whole: bool = False
    prior: bool = False
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Pass:
    """A prompt in a model's tokens, and what is read: labels or candidates behind it, or spans of it.

    Attributes:
        tokens: the prompt, as far as it is read.
        labels: token ids that are read at the position after the prompt.
        candidates: whole continuations of the prompt in token ids, each read token by token.
        kept: its scores may be kept across requests, which then get the same bits.
        spans: ranges of the prompt's tokens, (start, end), over which hidden states are averaged.
    """

    tokens: tuple[int, ...]
    labels: tuple[int, ...] = ()
    candidates: tuple[tuple[int, ...], ...] = ()
    kept: bool = False
    spans: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        """Check what is read.

        Raises:
            ValueError: not exactly one of labels, candidates and spans is given, a candidate has no token, or
                a span is no range of the prompt's.
        """
        if sum(map(bool, (self.labels, self.candidates, self.spans))) != 1:
            raise ValueError("a pass reads labels or candidates or spans")
        if not all(self.candidates):
            raise ValueError("a candidate has a token at least")
        if not all(0 <= start <= end <= len(self.tokens) for start, end in self.spans):
            raise ValueError("a span is a range of the prompt's tokens")

    @property
    def scored(self) -> tuple[tuple[int, ...], ...]:
        """The token ids whose scores are read, a sequence each."""
        return self.candidates or tuple((label,) for label in self.labels)

    @property
    def longest(self) -> int:
        """The most tokens that are read in one row."""
        return len(self.tokens) + max((len(each) - 1 for each in self.candidates), default=0)

    @property
    def size(self) -> int:
        """All tokens: the prompt's and the candidates'."""
        return len(self.tokens) + sum(map(len, self.candidates))


@dataclass(frozen=True, slots=True)
class Scores:
    """What a model said to one pass, behind its prompt.

    Attributes:
        values: one a label or candidate, in the order of the pass. A label's is its logit (float32,
            widened). A candidate's is its log-probability: the sum, in float64, over its tokens of the
            logit less the logarithm of the sum of the exponentials of all logits (both read in float32).
        mass: the share of all probability that falls on the labels, or that of all continuations on the
            candidates: the sum of their probabilities, 1 at most. 1 for spans, of which nothing is said.
        forwards: serial numbers, within the request, of the forwards that the pass took part in; none
            where its scores had been kept.
        lengths: the candidates' numbers of tokens.
        means: of each span the mean, over its tokens, of the trunk's outputs behind the last norm (float32,
            summed in float64), d numbers; zeros where it has no token.
    """

    values: tuple[float, ...]
    mass: float
    forwards: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()
    means: tuple[tuple[float, ...], ...] = ()

    @property
    def finite(self) -> bool:
        """Whether every value is a finite number."""
        # One number that is not finite makes the sum so; means have many.
        numbers = (*self.values, self.mass, *map(sum, self.means))
        return all(map(math.isfinite, numbers))


@dataclass(frozen=True, slots=True)
class Reading:
    """What a readout made of its scores: a probability an option, in the order of the question.

    Probabilities are float64, in [0, 1] and sum to 1; those of a predicate are (true, false).
    `order_spread` is the largest difference between two orders' probabilities of one option. `scores` are the
    raw ones of each prompt, in its order of the options, where the readout itself made them of what was read.
    The rest says what was done with the scores.
    """

    probabilities: tuple[float, ...]
    orders: int = 1
    order_spread: float = 0.0
    prior_corrected: bool = False
    length_normalized: bool = False
    scores: tuple[tuple[float, ...], ...] = ()


Reads: TypeAlias = Generator[tuple[Prompt, ...], tuple[Scores, ...], Reading]
"""A question being read: yields the prompts of a round, receives their scores, ends with the reading."""
