"""What a trunk gave for the tokens of a prompt, and the means of it over spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

Sum: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Outputs:
    """Of some tokens that follow each other: float32 (tokens, d), behind the last norm, never written to."""

    tokens: NDArray[np.float32]

    @classmethod
    def of(cls, picked: mx.array) -> Outputs:
        """Those that a forward read, (tokens, d); evaluates."""
        return cls(np.array(picked.astype(mx.float32)))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def nbytes(self) -> int:
        """Bytes of all."""
        return self.tokens.nbytes

    def sum(self, start: int, end: int) -> Sum:
        """Of the tokens from `start` to `end`, (d,), as far as they are here."""
        start, end = max(0, start), min(len(self), end)
        return self._whole if (start, end) == (0, len(self)) else self._sum(start, end)

    @cached_property
    def _whole(self) -> Sum:
        # Every question about a long state asks for that of most of its chunks.
        return self._sum(0, len(self))

    def _sum(self, start: int, end: int) -> Sum:
        # What is not finite comes out as such, and its question is refused.
        with np.errstate(all="ignore"):
            total: Sum = self.tokens[start : max(start, end)].sum(axis=0, dtype=np.float64)
        return total


def everywhere(rows: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """All (row, position) pairs of some rows, row by row."""
    return [(row, position) for row, tokens in enumerate(rows) for position in range(len(tokens))]


def means(outputs: Sequence[Outputs], spans: Sequence[tuple[int, int]]) -> tuple[tuple[float, ...], ...]:
    """The mean over each span, d numbers; zeros where it has no token.

    Args:
        outputs: of a prompt's tokens from its first on, piece by piece. The last bits depend on the pieces.
        spans: ranges of its tokens, (start, end).

    Raises:
        ValueError: a span reaches beyond them.
    """
    tokens = sum(map(len, outputs))
    found = []
    for start, end in spans:
        if end > tokens:
            raise ValueError(f"a span ends at token {end}, and there are outputs of {tokens}")
        total = np.zeros(outputs[0].tokens.shape[1])
        place = 0
        with np.errstate(all="ignore"):
            for piece in outputs:
                if start < place + len(piece) and place < end:
                    total += piece.sum(start - place, end - place)
                place += len(piece)
        found.append(tuple((total / max(1, end - start)).tolist()))
    return tuple(found)
