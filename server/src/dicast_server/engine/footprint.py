"""What requests take in memory while they are read: their prefixes, or whole prompts in one forward."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of a prefix by its length.

    Attributes:
        token_bytes: keys and values of one token, in all layers.
        chunk_bytes: what a forward leaves besides, whatever its length: recurrent states.
        forward_tokens: tokens of a chunk.
        copied: whether each row runs on a copy of all that is before it.
    """

    token_bytes: int
    chunk_bytes: int
    forward_tokens: int
    copied: bool = False

    def of(self, tokens: int) -> int:
        """Bytes of a prefix of so many tokens."""
        chunks = -(-tokens // self.forward_tokens)
        return tokens * self.token_bytes + chunks * self.chunk_bytes

    def within(self, nbytes: int, most: int) -> int:
        """The longest prefix of at most `most` tokens that takes at most so many bytes."""
        return bisect.bisect_right(range(most + 1), nbytes, key=self.of) - 1

    def over(self, prefixes: Sequence[int], tail: int) -> int:
        """Bytes of a request over prefixes of so many tokens each.

        `tail` are the most tokens that are read behind one of them: those of a question and, where it has
        candidates, of the longest. What a forward takes while it runs is not counted: one runs at a time.
        """
        behind = max(prefixes, default=0) if self.copied else 0
        return sum(map(self.of, prefixes)) + self.of(behind + tail)


@dataclass(frozen=True, slots=True)
class WholeForward:
    """Bytes that one forward of a whole prompt takes at most, as independent requests run it.

    MLX's attention on a CPU has all heads' scores of all pairs of tokens there at once, and three times over
    where a model has attention sinks. Elsewhere it may take less.

    Attributes:
        pair_bytes: by the square of the tokens.
        token_bytes: by the tokens.
    """

    pair_bytes: int
    token_bytes: int

    @classmethod
    def of_model(cls, heads: int, width: int, sinks: bool = False) -> WholeForward:
        """Of a model with so many attention heads, whose layers are as wide as all their parts together.

        `width` is that of the hidden states and of the layers inside the MLP together.
        """
        return cls(4 * heads * (3 if sinks else 1) + 1, 4 * _WIDTHS * width)

    def of(self, tokens: int) -> int:
        """Bytes of a forward of so many tokens."""
        return tokens * tokens * self.pair_bytes + tokens * self.token_bytes

    def within(self, nbytes: int, most: int) -> int:
        """The longest prompt of at most `most` tokens that takes at most so many bytes."""
        return bisect.bisect_right(range(most + 1), nbytes, key=self.of) - 1


_WIDTHS = 20
"""How often a token's hidden state and MLP state are there at once: MLX runs ahead of what it frees.

Measured on a CPU: 7 to 9 for dense decoders, 17 for mamba2.
"""
