"""Keeps scores between requests, for passes that many of them ask alike."""

from __future__ import annotations

import hashlib
import struct
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dicast_server.decisions.passes import Pass, Scores

ENTRIES = 1024
"""How many are kept: some 10 KiB each at most, with 255 values, and far less as a rule."""


@dataclass(frozen=True, slots=True)
class KeptScores:
    """Scores without their forwards, and the tokens that reading them took."""

    scores: Scores
    tokens: int


class ScoreCache:
    """The scores of passes that are alike in salt, tokens and what is read; least recently used go first.

    Only the engine thread calls this.
    """

    def __init__(self, entries: int = ENTRIES) -> None:
        self._entries = entries
        self._kept: OrderedDict[bytes, KeptScores] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, salt: bytes, pass_: Pass) -> KeptScores | None:
        """What is kept of a pass."""
        key = _key(salt, pass_)
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
        return kept

    def keep(self, salt: bytes, pass_: Pass, scores: Scores, tokens: int) -> None:
        """Keep the scores of a pass, whose reading took so many tokens.

        Scores that are not finite are not kept: a fault of a moment would stay.
        """
        if not scores.finite:
            return
        self._kept[_key(salt, pass_)] = KeptScores(replace(scores, forwards=()), tokens)
        while len(self._kept) > self._entries:
            self._kept.popitem(last=False)


def _key(salt: bytes, pass_: Pass) -> bytes:
    # Each part says how long it is, so that none can be read as the beginning of the next.
    spans = [place for span in pass_.spans for place in span]
    parts = [_ids(pass_.tokens), _ids(pass_.labels), _ids(spans), *map(_ids, pass_.candidates)]
    return hashlib.sha256(struct.pack("<I", len(salt)) + salt + b"".join(parts)).digest()


def _ids(tokens: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(tokens) + 1}I", len(tokens), *tokens)
