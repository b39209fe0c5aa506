"""What a request takes in memory while it is read, and how long its prompts may be for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dicast_server.engine.footprint import Footprint, WholeForward

WHOLE_TOKENS = 2048
"""The most tokens of a prompt that is read whole, of which the attention takes memory by the square."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes by the lengths of prompts, and the `budget` of all that is read at once; None is no bound."""

    prefixes: Footprint
    whole_forward: WholeForward
    budget: int | None = None

    def shared(self, prefixes: Sequence[int], tail: int) -> int:
        """Bytes of a request whose prefixes have so many tokens, with at most `tail` behind one of them."""
        return self.prefixes.over(prefixes, tail)

    def whole(self, tokens: int) -> int:
        """Bytes of a forward that reads a whole prompt of so many tokens."""
        return self.whole_forward.of(tokens)

    def longest_whole(self, context: int) -> int:
        """The most tokens of such a prompt."""
        most = min(context, WHOLE_TOKENS)
        return most if self.budget is None else self.whole_forward.within(self.budget, most)
