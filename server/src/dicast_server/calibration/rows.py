"""Scored rows: what a model said to a labelled question, kept raw so that any temperature can be tried."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dicast_server.calibration.kinds import Kind
from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.decisions.answers import PassDiagnostics


@dataclass(frozen=True, slots=True, order=True)
class ScoredRow:
    """A labelled question's scores.

    `scores` has an entry per pass (order of the options), each with a score per option in the order of the
    question; what a prior scored is subtracted already. `label` is the index of the option that is right.
    """

    kind: Kind
    group: str
    id: str
    label: int
    scores: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        """Raises ValueError where passes differ in their options, or the label is none of them."""
        widths = {len(scores) for scores in self.scores}
        if len(widths) != 1 or min(widths) < 2 or not 0 <= self.label < min(widths):
            raise ValueError(f"row {self.id!r} has passes of {sorted(widths)} options and label {self.label}")

    @property
    def options(self) -> int:
        """How many options the question has."""
        return len(self.scores[0])


class NotUsable(ValueError):
    """A row cannot be fitted on; the message says why."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A row that is not used, and why."""

    id: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Collected:
    """The rows that are usable, and those that are not."""

    rows: tuple[ScoredRow, ...]
    left_out: tuple[LeftOut, ...]


def scored_row(
    question: LabelledQuestion, passes: Sequence[PassDiagnostics], length_normalized: bool = False
) -> ScoredRow:
    """A question with the scores of its passes.

    The k-th prior is subtracted from the k-th pass, as readouts do. Under `length_normalized` each score is
    divided by its number of tokens first.

    Raises:
        NotUsable: there are no scores, one is not finite, or a pass does not list all options, as when more
            options than letters are read in chunks: their probabilities are no softmax of one pass.
    """
    own = [each for each in passes if not each.prior]
    priors = [each for each in passes if each.prior]
    if not own:
        raise NotUsable("has no scores")
    if priors and [each.options for each in priors] != [each.options for each in own]:
        raise NotUsable("has priors of other passes")
    places = list(range(question.options))
    if any(sorted(each.options) != places for each in passes):
        raise NotUsable("was read in chunks: no pass lists all options")
    read = [_by_option(each, length_normalized) for each in own]
    before = [_by_option(each, length_normalized) for each in priors] or [(0.0,) * len(places)] * len(own)
    scores = tuple(
        tuple(value - prior for value, prior in zip(values, subtracted, strict=True))
        for values, subtracted in zip(read, before, strict=True)
    )
    if not all(math.isfinite(value) for values in scores for value in values):
        raise NotUsable("has a score that is not finite")
    return ScoredRow(question.kind, question.group, question.id, question.label, scores)


def collect(
    read: Iterable[tuple[LabelledQuestion, Sequence[PassDiagnostics]]], length_normalized: bool = False
) -> Collected:
    """All rows at once: the usable ones, and the others with their reasons."""
    rows: list[ScoredRow] = []
    left_out: list[LeftOut] = []
    for question, passes in read:
        try:
            rows.append(scored_row(question, passes, length_normalized))
        except NotUsable as error:
            left_out.append(LeftOut(question.id, question.line, str(error)))
    return Collected(tuple(rows), tuple(left_out))


def _by_option(scored: PassDiagnostics, length_normalized: bool) -> tuple[float, ...]:
    """A pass's scores in the order of the question's options."""
    values = scored.scores
    if length_normalized:
        values = tuple(value / len(tokens) for value, tokens in zip(values, scored.token_ids, strict=True))
    of = dict(zip(scored.options, values, strict=True))
    return tuple(of[option] for option in range(len(values)))
