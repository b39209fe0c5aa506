"""What a fit tells apart: the three types of questions, and bands of how many options they have."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from dicast_server.decisions.questions import Choice, Predicate, QuestionType

Kind: TypeAlias = Literal["predicate", "choice", "score"]
KINDS: tuple[Kind, ...] = ("predicate", "choice", "score")


class Band(NamedTuple):
    """Numbers of options that share a temperature, both ends included."""

    low: int
    high: int


BANDS = (Band(2, 2), Band(3, 4), Band(5, 8), Band(9, 16), Band(17, 52), Band(53, 255))
"""Doublings, because what matters of n options is their logarithm; then what letters hold, then the limit."""


def kind_of(type_: QuestionType) -> Kind:
    """The kind of a question."""
    match type_:
        case Predicate():
            return "predicate"
        case Choice():
            return "choice"
        case _:
            return "score"


def band_of(options: int) -> Band:
    """The band of a number of options, 2 to 255. Raises ValueError outside."""
    for band in BANDS:
        if band.low <= options <= band.high:
            return band
    raise ValueError(f"{options} options: a question has 2 to {BANDS[-1].high}")
