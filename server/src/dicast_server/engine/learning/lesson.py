"""What is learned from at a time: a state that is read once, and the questions about it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

HIDDEN = np.float32(-np.inf)


@dataclass(frozen=True, slots=True)
class Example:
    """One question: its tokens behind the state's, the token ids of its labels, and which label is right."""

    tail: tuple[int, ...]
    labels: tuple[int, ...]
    right: int


@dataclass(frozen=True)
class Lesson:
    """A state's tokens and the examples that continue them.

    All of it is one sequence: the prefix, then every tail, each of which sees the prefix and itself.
    """

    prefix: tuple[int, ...]
    examples: tuple[Example, ...]

    @property
    def size(self) -> int:
        """All tokens."""
        return len(self.prefix) + sum(len(example.tail) for example in self.examples)

    @property
    def tokens(self) -> tuple[int, ...]:
        """Token ids of the sequence."""
        return (*self.prefix, *itertools.chain.from_iterable(example.tail for example in self.examples))

    @cached_property
    def starts(self) -> Sequence[int]:
        """Where each tail begins in the sequence, and where the last one ends."""
        lengths = (len(example.tail) for example in self.examples)
        return tuple(itertools.accumulate(lengths, initial=len(self.prefix)))

    @property
    def places(self) -> NDArray[np.intp]:
        """The position of each token in its own prompt, (size,)."""
        own = [np.arange(len(self.prefix))]
        own += [len(self.prefix) + np.arange(len(example.tail)) for example in self.examples]
        return np.concatenate(own)

    @property
    def ends(self) -> NDArray[np.intp]:
        """Where in the sequence the examples are read, (examples,)."""
        return np.array(self.starts[1:], np.intp) - 1

    @property
    def mask(self) -> NDArray[np.float32]:
        """What is added to attention's scores, (size, size): 0 where a token sees another, -inf elsewhere."""
        mask = np.triu(np.full((self.size, self.size), HIDDEN), 1)
        for start, end in itertools.pairwise(self.starts):
            mask[start:end, len(self.prefix) : start] = HIDDEN
        return mask
