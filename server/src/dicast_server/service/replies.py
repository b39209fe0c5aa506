"""What a model's reply may be, in tokens: labels of one token, and whole candidate texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol

from dicast_server.models.answer_slot import Unreadable
from dicast_server.readouts.direct import LABELS
from dicast_server.readouts.letters import LETTERS

_KNOWN = tuple(dict.fromkeys((*LETTERS, *LABELS)))
_SYSTEMS = 16
"""How many system texts' labels are kept; dicast's own readouts have three."""


class Frame(Protocol):
    """The chat prompt around a user's message, in tokens, and what may follow it."""

    @property
    def end_of_turn(self) -> int | None:
        """The token that ends a reply, None where there is none."""

    def encode_many(self, messages: Sequence[str]) -> list[tuple[int, ...]]:
        """The whole prompt's token ids for each message."""

    def least_tokens(self, text: str) -> int:
        """How many tokens a text has at least, without encoding it."""

    def label_ids(self, labels: Sequence[str]) -> dict[str, int]:
        """The token of each label that is one token where the reply begins, all different."""

    def candidate_ids(self, texts: Sequence[str]) -> Sequence[tuple[int, ...] | Unreadable]:
        """The tokens of each text as a reply, or why it cannot be one."""


class CandidateError(ValueError):
    """A text cannot be a reply of this model; `place` is its place among the texts, None for all of them."""

    def __init__(self, message: str, place: int | None = None) -> None:
        super().__init__(message)
        self.place = place


class Replies:
    """The prompts of one model by the text of the system's message, and replies to them."""

    def __init__(self, frame: Callable[[str], Frame]) -> None:
        """`frame` gives the frame of a system's text, empty for none, and keeps it."""
        self.frame = frame
        # Hundreds of labels take a tenth of a second to find.
        self._table = lru_cache(_SYSTEMS)(lambda system: frame(system).label_ids(_KNOWN))

    def single_tokens(self, system: str, texts: Sequence[str]) -> list[str]:
        """Those of some texts that are one token each where the reply begins, all different."""
        found = self._ids(system, texts)
        return [text for text in texts if text in found]

    def label_ids(self, system: str, labels: Sequence[str]) -> tuple[int, ...]:
        """A token id a label.

        Raises:
            CandidateError: one of them is no token of its own.
        """
        found = self._ids(system, labels)
        for place, label in enumerate(labels):
            if label not in found:
                raise CandidateError(f"{_shortened(label)} is no token of its own in this model", place)
        return tuple(found[label] for label in labels)

    def candidates(self, system: str, texts: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """The token ids of whole replies, the end of the turn included.

        Raises:
            CandidateError: a text cannot be a reply, or the model does not end its turns by a token.
        """
        frame = self.frame(system)
        if (end := frame.end_of_turn) is None:
            raise CandidateError("this model has no token that ends a reply; score single tokens")
        found: dict[tuple[int, ...], str] = {}
        for place, (text, ids) in enumerate(zip(texts, frame.candidate_ids(texts), strict=True)):
            if isinstance(ids, Unreadable):
                raise CandidateError(f"the candidate {_shortened(text)} {ids.why}", place)
            whole = (*ids, end)
            if (other := found.get(whole)) is not None:
                raise CandidateError(
                    f"the candidates {_shortened(other)} and {_shortened(text)} are the same tokens", place
                )
            found[whole] = text
        return tuple(found)

    def _ids(self, system: str, texts: Sequence[str]) -> dict[str, int]:
        table = self._table(system)
        known = {text: table[text] for text in texts if text in table}
        if len(known) == len(texts):
            return known
        return self.frame(system).label_ids(texts)


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
