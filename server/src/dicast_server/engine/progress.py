"""A request on its way through the engine: its turns, what it has found, and what it has taken."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

Result = TypeVar("Result")
Returned = TypeVar("Returned")

Turns: TypeAlias = Generator[Sequence[Result], None, Returned]
"""A part of a request: yields between its forwards what they gave, and returns what it was for."""

Steps: TypeAlias = Turns[Result, Sequence[Result]]
"""A request being run, one forward a step: what each forward gave, the last one by its return."""


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
