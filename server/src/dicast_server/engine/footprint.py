"""What a prefix takes in memory while a request is read over it."""

from __future__ import annotations

import bisect
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of a prefix by its length.

    Attributes:
        token_bytes: keys and values of one token, in all layers.
        chunk_bytes: what a forward leaves besides, whatever its length: recurrent states.
        forward_tokens: tokens of a chunk.
    """

    token_bytes: int
    chunk_bytes: int
    forward_tokens: int

    def of(self, tokens: int) -> int:
        """Bytes of a prefix of so many tokens."""
        chunks = -(-tokens // self.forward_tokens)
        return tokens * self.token_bytes + chunks * self.chunk_bytes

    def within(self, nbytes: int, most: int) -> int:
        """The longest prefix of at most `most` tokens that takes at most so many bytes."""
        return bisect.bisect_right(range(most + 1), nbytes, key=self.of) - 1
