"""Where answers come from: one small interface, whatever speaks behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dicast_server.calibration.labelled import LabelledQuestion

Scores = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Said:
    """What a system said to a question.

    `probabilities` are of all options in the question's order, a predicate's (true, false). `scores` are
    raw, as in `calibration.rows.ScoredRow`; None where the system does not tell them, or where they cannot
    be fitted on, which `unfit` then explains.
    """

    probabilities: tuple[float, ...]
    scores: Scores | None = None
    unfit: str = ""


@dataclass(frozen=True, slots=True)
class Unsaid:
    """A question without an answer, and why."""

    reason: str


class Declined(Exception):
    """A request as a whole was refused for what it holds; asked one by one, some questions may pass."""


class Busy(Exception):
    """The system takes no more now; `retry_s` is how long it wants to be left alone."""

    def __init__(self, message: str, retry_s: float) -> None:
        super().__init__(message)
        self.retry_s = retry_s


class SourceLost(Exception):
    """The system cannot be asked at all; the message says why. What was answered until then stays."""


class Source(Protocol):
    """A system that answers.

    Attributes:
        name: for people.
        digest: of the system and its settings: answers under another one are another system's.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def digest(self) -> str: ...  # noqa: D102

    async def ask(self, questions: Sequence[LabelledQuestion]) -> list[Said | Unsaid]:
        """Answer questions about one state, in their order.

        Raises:
            Declined: the request was refused for what it holds.
            Busy: it may be sent again later.
            SourceLost: nothing can be asked.
        """
        ...
