"""A request on its way through the engine: what it asks, its turns, what it found and what that took."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeAlias, TypeVar

from dicast_server.decisions.passes import Pass, Scores

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)
Returned = TypeVar("Returned")

Turns: TypeAlias = Generator[Sequence[Result], None, Returned]
"""A part of a request: yields between its forwards what they gave, and returns what it was for."""

Steps: TypeAlias = Turns[Result, Sequence[Result]]
"""A request being run, one forward a step: what each forward gave, the last one by its return."""


class Rounds(Protocol[Result_co]):
    """What the engine sees of a decision: rounds of passes that want scores."""

    def next_round(self) -> Sequence[Pass]:
        """The passes to read next; empty when there are none."""

    def receive(self, index: int, scores: Scores) -> Sequence[Result_co]:
        """Take the scores of one pass; the results that they complete, if any."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Whether a prefix is in the store now; `reason` says why not, and is empty where it is."""

    reason: str = ""


@dataclass(slots=True)
class Tally:
    """Tokens that a request's prompts and candidates hold, each shared prefix once; and its forwards.

    `cached_tokens` of them came out of the store, or belong to scores that had been kept.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    forwards: int = 0


@dataclass(slots=True)
class Progress(Generic[Result]):
    """A request's tally, and what its last forward gave."""

    tally: Tally
    results: list[Result] = field(default_factory=list)
    ran: bool = False

    def turn(self) -> Turns[Result, None]:
        """Let others have their forward, if this request has had one; called before whatever needs one.

        Not after each: the last one's results would wait for everybody's turn to hear that it was the last.
        """
        if self.ran:
            self.ran = False
            yield self.take()

    def count(self) -> None:
        """A forward has run."""
        self.ran = True
        self.tally.forwards += 1

    def take(self) -> list[Result]:
        """What was found since it was last taken."""
        taken, self.results = self.results, []
        return taken

    def since(self, first: int) -> tuple[int, ...]:
        """The serial numbers of the forwards from `first` on."""
        return tuple(range(first, self.tally.forwards))


def alone(steps: Steps[Result]) -> Iterator[Sequence[Result]]:
    """Run a request without any others: what each of its forwards gave."""
    yield (yield from steps)
