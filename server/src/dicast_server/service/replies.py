"""What a model's reply may be, in tokens: labels of one token, and whole candidate texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol

from dicast_server.decisions.passes import Pass, Prompt
from dicast_server.models.answer_slot import Unreadable
from dicast_server.readouts.direct import LABELS
from dicast_server.readouts.letters import LETTERS

_KNOWN = tuple(dict.fromkeys((*LETTERS, *LABELS)))
_LABELS_ONLY = "is read by means of hidden states, for which this model has no head"
_SPANS_ONLY = (
    "reads what the model would reply, and the adapter of this one reads nothing but means of hidden states: "
    "name no readout, or ask a model without such an adapter"
)
_SYSTEMS = 16
"""How many system texts' labels are kept; dicast's own readouts have three."""


class Frame(Protocol):
    """The chat prompt around a user's message, in tokens, and what may follow it."""

    @property
    def end_of_turn(self) -> int | None:
        """The token that ends a reply, None where there is none."""

    def encode_many(self, messages: Sequence[str]) -> list[tuple[int, ...]]:
        """The whole prompt's token ids for each message."""

    def locate_many(
        self, messages: Sequence[str], spans: Sequence[Sequence[tuple[int, int]]]
    ) -> list[tuple[tuple[int, ...], tuple[tuple[int, int], ...]]]:
        """The same, and the ranges of the ids for each message's ranges of characters."""

    def least_tokens(self, text: str) -> int:
        """How many tokens a text has at least, without encoding it."""

    def label_ids(self, labels: Sequence[str]) -> dict[str, int]:
        """The token of each label that is one token where the reply begins, all different."""

    def candidate_ids(self, texts: Sequence[str]) -> Sequence[tuple[int, ...] | Unreadable]:
        """The tokens of each text as a reply, or why it cannot be one."""


class CandidateError(ValueError):
    """A prompt cannot be read: a text cannot be a reply of this model.

    `place` is that of the text among those of the prompt, None for all of them.
    """

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

    def passes(self, system: str, prompts: Sequence[Prompt], pooled: bool) -> list[Pass | CandidateError]:
        """Prompts under one system's text in tokens, with what is read, or why one cannot be read.

        `pooled` is whether the model reads spans, and nothing else.
        """
        frame = self.frame(system)
        messages = [prompt.message for prompt in prompts]
        made: list[Pass | CandidateError] = []
        if pooled:
            located = frame.locate_many(messages, [prompt.spans for prompt in prompts])
        else:
            located = [(tokens, ()) for tokens in frame.encode_many(messages)]
        for prompt, (tokens, spans) in zip(prompts, located, strict=True):
            try:
                if pooled != bool(prompt.spans):
                    raise CandidateError(_LABELS_ONLY if prompt.spans else _SPANS_ONLY)
                made.append(_pooled(tokens, spans) if pooled else self._answered(prompt, tokens))
            except CandidateError as error:
                made.append(error)
        return made

    def _answered(self, prompt: Prompt, tokens: tuple[int, ...]) -> Pass:
        if prompt.whole:
            candidates = self.candidates(prompt.system, prompt.labels)
            return Pass(tokens, candidates=candidates, kept=prompt.prior)
        labels = self.label_ids(prompt.system, prompt.labels)
        return Pass(tokens, labels=labels, kept=prompt.prior)

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


def _pooled(tokens: tuple[int, ...], spans: Sequence[tuple[int, int]]) -> Pass:
    """A pass as far as its last span; what a template puts behind the message is not read."""
    end = max((last for start, last in spans if start < last), default=1)
    return Pass(tokens[:end], spans=tuple((min(start, end), min(last, end)) for start, last in spans))


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
