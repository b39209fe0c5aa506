"""The prompt around a user's message: the chat template, rendered once when the model is loaded."""

import bisect
import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dicast_server.models import stretches
from dicast_server.models.answer_slot import AnswerSlot, Unreadable
from dicast_server.models.chat_template import MESSAGES, SYSTEM, TEMPLATE_SETTINGS, ChatTemplate, Layout
from dicast_server.models.errors import ModelRefused
from dicast_server.models.stretches import Opening, Stretch
from dicast_server.models.tokenizer import TextEncoder


@dataclass(frozen=True, slots=True)
class PromptFrame:
    """What stands before and after a message, so that no template runs for a request.

    The text beside the message is encoded together with it, so that tokens form across the seam
    as they do in the whole prompt.

    Attributes:
        encoder: encodes the message and the text beside it.
        head: the ids before that text, beginning with the BOS if the model has one.
        before: the text between `head` and the message.
        after: the text between the message and `tail`.
        tail: the ids after that text, with the header of the assistant's turn.
        slot: the place of the answer behind them.
        end_of_turn: the token that ends the assistant's turn; None if the model has none.
        found: what was found in the template, in a few words each.
        opening: what the reply was made to begin with, if it was.
    """

    encoder: TextEncoder
    head: tuple[int, ...]
    before: str
    after: str
    tail: tuple[int, ...]
    slot: AnswerSlot
    end_of_turn: int | None
    found: tuple[str, ...]
    opening: Opening | None = None

    @classmethod
    def from_template(
        cls, tokenizer: Any, settings: Mapping[str, Any] = TEMPLATE_SETTINGS, system: str = ""
    ) -> "PromptFrame":
        """Render the chat template around one user message, with a system text or without.

        Where the template has no place for the system text it goes in front of the user's message, and
        a blank line behind it. A tokenizer without a template gets the message, a blank line and
        "Answer:".

        Args:
            tokenizer: transformers' fast tokenizer, or mlx-lm's wrapper around one.
            settings: the variables that the template sees besides the messages.
            system: a text that anybody may have written: control tokens in it stay plain text, white space
                around it is dropped.

        Raises:
            ModelRefused: the template fails, it changes the message, or the tokenizer cannot be split
                around a message.
        """
        return cls.build(ChatTemplate(tokenizer, settings), TextEncoder.of(tokenizer), system)

    @classmethod
    def build(cls, template: ChatTemplate, encoder: TextEncoder, system: str = "") -> "PromptFrame":
        """The same for a template and a tokenizer that were read before. Raises as `from_template` does."""
        system = system.strip()  # as most templates do, and all of them must agree
        for layout in template.layouts(system):
            for double in encoder.doubles:
                frame = _assembled(layout, double, encoder, system)
                if frame is not None:
                    return replace(frame, end_of_turn=_end_of_turn(template, encoder))
        raise ModelRefused(
            "the tokenizer encodes a message differently inside its chat template than beside it."
        )

    @property
    def description(self) -> str:
        """What was found in the template, in a few words."""
        kind, *more = self.found
        bos = self.encoder.prefix[:1] or (self.encoder.bos,)
        # SmolLM2 calls the token a BOS that begins each turn.
        once = self.head[:1] == bos and (*self.head, *self.tail).count(bos[0]) == 1
        begins = f"begins with token {bos[0]} once" if once else "no BOS"
        opened = [] if self.opening is None else [f"reply begins with {self.opening.name}"]
        return ", ".join((kind, begins, *more, *opened))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that decides the ids of a message and of its answers, in hexadecimal."""
        decisive = [
            self.encoder.fingerprint,
            self.head,
            self.before,
            self.after,
            self.tail,
            self.slot.lead,
        ]
        return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()

    def encode(self, message: str) -> tuple[int, ...]:
        """The ids of the whole prompt; control tokens spelled in the message stay plain text."""
        return self.encode_many([message])[0]

    def encode_many(self, messages: Sequence[str]) -> list[tuple[int, ...]]:
        """The ids of one whole prompt per message, encoded on all CPUs."""
        texts = [self.before + message + self.after for message in messages]
        return [(*self.head, *ids, *self.tail) for ids in self.encoder.encode_texts(texts)]

    def locate_many(
        self, messages: Sequence[str], spans: Sequence[Sequence[tuple[int, int]]]
    ) -> list[tuple[tuple[int, ...], tuple[tuple[int, int], ...]]]:
        """The ids of one whole prompt per message, and the ranges of them that begin in its spans.

        Args:
            messages: each as in `encode_many`, which gives the same ids.
            spans: of each message, ranges of its characters, (start, end).
        """
        texts = [self.before + message + self.after for message in messages]
        found = []
        for (ids, begins), ranges in zip(self.encoder.locate_texts(texts), spans, strict=True):
            # A normalizer may turn characters around.
            ascending = list(itertools.accumulate(begins, max))
            places = [
                len(self.head) + bisect.bisect_left(ascending, len(self.before) + at)
                for at in itertools.chain.from_iterable(ranges)
            ]
            pairs = zip(places[::2], places[1::2], strict=True)
            found.append(((*self.head, *ids, *self.tail), tuple(pairs)))
        return found

    def least_tokens(self, text: str) -> int:
        """How many tokens a text has at least, without encoding it."""
        return self.encoder.least_tokens(text)

    def label_ids(self, labels: Sequence[str]) -> dict[str, int]:
        """The tokens of those labels that add exactly one, their own, to the end of a prompt."""
        return self.slot.label_ids(labels)

    def candidate_ids(self, texts: Sequence[str]) -> list[tuple[int, ...] | Unreadable]:
        """The tokens that each text adds to the end of a prompt, or why it cannot be an answer."""
        return self.slot.candidate_ids(texts)

    def openings(self) -> list["PromptFrame"]:
        """Frames whose reply begins otherwise, for a model that would not answer right away.

        With an empty reasoning block, for each kind whose marks are control tokens of the tokenizer; or
        with a space before the answer, where the prompt ends in a text.
        """
        slot = self.slot
        kinds = stretches.openings(slot.encoder, slot.control, slot.text, slot.lead)
        return [self.opened(kind) for kind in kinds]

    def opened(self, opening: Opening) -> "PromptFrame":
        """The frame whose reply begins with an opening."""
        grown = stretches.appended(self.encoder, [], opening.pieces)
        return replace(
            self,
            tail=(*self.tail, *(id_ for stretch in grown for id_ in stretch.ids)),
            slot=_slot(self.slot.encoder, grown, opening.lead)
            if grown
            else replace(self.slot, lead=opening.lead),
            opening=opening,
        )


def _assembled(layout: Layout, double: TextEncoder, encoder: TextEncoder, system: str) -> PromptFrame | None:
    """The frame of a layout, or None where this double encodes a message otherwise than the whole prompt."""
    parts = stretches.cut(encoder, layout.before + MESSAGES[0] + layout.after)
    proof = _frame(layout, double, encoder, parts, SYSTEM)
    if proof is None:
        return None
    for message in MESSAGES:
        text = layout.before + message + layout.after
        whole = encoder.full.encode(text, add_special_tokens=False).ids
        if proof.encode(message) != encoder.begun(whole):
            return None
    closed, note = stretches.closed(encoder, parts, layout.after)
    frame = _frame(layout, double, encoder, closed, system)
    return None if frame is None else replace(frame, found=(*layout.found, note))


def _frame(
    layout: Layout, double: TextEncoder, encoder: TextEncoder, parts: Sequence[Stretch], system: str
) -> PromptFrame | None:
    """Divide the prompt at the control tokens next to the message, and put in the system text."""
    message = MESSAGES[0]
    place = next((place for place, part in enumerate(parts) if message in part.text), None)
    if place is None:
        return None
    head: list[int] = []
    for part in parts[:place]:
        if SYSTEM not in part.text:
            head += part.ids
        elif (ids := _system_ids(part, encoder, system)) is not None:
            head += ids
        else:
            return None
    before, _, after = parts[place].text.partition(message)
    return PromptFrame(
        encoder=double,
        head=encoder.begun(head),
        before=before.replace(SYSTEM, system),
        after=after,
        tail=tuple(id_ for part in parts[place + 1 :] for id_ in part.ids),
        slot=_slot(encoder, parts, layout.lead),
        end_of_turn=None,
        found=layout.found,
    )


def _system_ids(part: Stretch, encoder: TextEncoder, system: str) -> list[int] | None:
    for double in encoder.doubles:
        if tuple(double.encode_text(part.text)) == part.ids:
            return double.encode_text(part.text.replace(SYSTEM, system))
    return None


def _slot(encoder: TextEncoder, parts: Sequence[Stretch], lead: str) -> AnswerSlot:
    """The end of a prompt. Its system text stays the stand-in, which spells no control token."""
    last = next((place for place in reversed(range(len(parts))) if parts[place].control), None)
    text = "".join(part.text for part in parts[0 if last is None else last + 1 :])
    return AnswerSlot(encoder, None if last is None else parts[last].ids[0], text, lead)


def _end_of_turn(template: ChatTemplate, encoder: TextEncoder) -> int | None:
    """The control token right behind a reply, else the tokenizer's end of a text."""
    if (replied := template.replied()) is not None:
        text, after = replied
        written = 0
        for part in stretches.cut(encoder, text + after):
            written += len(part.text)
            if written <= len(text):
                continue
            if part.control:
                return part.ids[0]
            if part.text[len(part.text) - (written - len(text)) :].strip():
                break
    return encoder.eos
