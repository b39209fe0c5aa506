"""The place of the answer: which tokens a text becomes right behind the prompt."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from dicast_server.models.tokenizer import TextEncoder

MAX_CANDIDATE_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A candidate that cannot be an answer; `why` goes on from its name, such as "is empty"."""

    why: str


@dataclass(frozen=True, slots=True)
class AnswerSlot:
    """The end of a prompt, as far back as it decides the tokens of an answer.

    Attributes:
        encoder: the model's tokenizer.
        control: the prompt's last control token; None if it has none behind the message.
        text: the prompt's text behind that token.
        lead: what comes before the first letter of an answer.
    """

    encoder: TextEncoder
    control: int | None
    text: str
    lead: str

    def label_ids(self, labels: Sequence[str]) -> dict[str, int]:
        """The one token of each label: what the label adds to the prompt.

        Left out is a label that adds several tokens, melts into the prompt's last one, reads as
        something else, or has the token of an earlier label.
        """
        before, *whole = self._encode(["", *(self.lead + label for label in labels)])
        found: dict[str, int] = {}
        taken: set[int] = set()
        for label, ids in zip(labels, whole, strict=True):
            if len(ids) != len(before) + 1 or ids[:-1] != before:
                continue
            last = ids[-1]
            if last in taken or last in self.encoder.control:
                continue
            # A SentencePiece vocabulary's token may carry the mark of a word's beginning.
            if self._decode([last]).strip() == label:
                found[label] = last
                taken.add(last)
        return found

    def candidate_ids(self, texts: Sequence[str]) -> list[tuple[int, ...] | Unreadable]:
        """The tokens of each text as an answer, or why it cannot be one."""
        # What cannot fit is not tokenised to find that out.
        fit = [text if self._least(text) <= MAX_CANDIDATE_TOKENS else "" for text in texts]
        before, probe, *whole = self._encode(["", self.lead + "x", *(self.lead + text for text in fit)])
        # Where the tokenizer marks the beginning of a word, an answer begins with a space that nobody wrote.
        mark = (self._added(before, probe) or "x").partition("x")[0].removesuffix(self.lead)
        found: list[tuple[int, ...] | Unreadable] = []
        for text, ids in zip(texts, whole, strict=True):
            why = self._why_not(text, before, ids) or self._why_changed(text, mark, before, ids)
            found.append(tuple(ids[len(before) :]) if why is None else Unreadable(why))
        return found

    def _why_not(self, text: str, before: list[int], whole: list[int]) -> str | None:
        """Why the tokens of a prompt with this text behind it are not the prompt's and the text's."""
        if not text:
            return "is empty"
        if (least := self._least(text)) > MAX_CANDIDATE_TOKENS:
            return f"takes at least {least} tokens, and at most {MAX_CANDIDATE_TOKENS} are read"
        if self._controls(whole) > self._controls(before):
            return "spells a control token of the model"
        if whole[: len(before)] != before or len(whole) == len(before):
            return "melts into the end of the prompt"
        if (tokens := len(whole) - len(before)) > MAX_CANDIDATE_TOKENS:
            return f"takes {tokens} tokens, and at most {MAX_CANDIDATE_TOKENS} are read"
        return None

    def _why_changed(self, text: str, mark: str, before: list[int], whole: list[int]) -> str | None:
        """Why the tokens of a text read as another one."""
        read = self._added(before, whole)
        if read == mark + self.lead + text:
            return None
        shown = "" if read is None else read.removeprefix(mark + self.lead)
        if shown in (unicodedata.normalize("NFC", text), unicodedata.normalize("NFKC", text)):
            return f"is not in the Unicode form that the model reads: write {shown!r}"
        return "does not come back unchanged from the model's tokens"

    def _least(self, text: str) -> int:
        return self.encoder.least_tokens(text)

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self.encoder.following(self.control, [self.text + text for text in texts])

    def _decode(self, ids: Sequence[int]) -> str:
        return self.encoder.full.decode(ids, skip_special_tokens=False)

    def _added(self, before: Sequence[int], whole: Sequence[int]) -> str | None:
        """What the tokens behind the prompt's read as, there where they stand."""
        start = [] if self.control is None else [self.control]
        shown, everything = self._decode([*start, *before]), self._decode([*start, *whole])
        return everything.removeprefix(shown) if everything.startswith(shown) else None

    def _controls(self, ids: Sequence[int]) -> int:
        return sum(id_ in self.encoder.control for id_ in ids)
