"""The prompt around a user's message: the chat template, rendered once when the model is loaded."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

from dicast_server.models.errors import ModelRefused
from dicast_server.models.tokenizer import TextEncoder

# The date is for Llama's templates, which otherwise print today's: a restart tomorrow would give
# other numbers. It is the one that the first of them prints.
TEMPLATE_SETTINGS: Mapping[str, Any] = {"enable_thinking": False, "date_string": "26 Jul 2024"}

_OPEN, _CLOSE = "<think>", "</think>"
# Two contents as unlike as can be, which a template must hand on untouched. Neither begins or
# ends with white space, because many templates strip that, and no message of ours does either;
# and neither spells a control token, so that the model's own tokenizer is a fair witness.
_SENTINELS = (
    "State:\nThe door is open.\n\nQuestion: Is it shut?\nOptions:\nA) yes: it is\nB) no: \n\n"
    "Answer with the letter of the best option only.",
    "Grüße: 2 < 3 & \"日本語\" > 'x', {{ no.variable }} {% raw %} \\n 1.5",
)


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
        rendered: the whole prompt's text around the message, for comparison with the tokenizer.
        closed_thinking: whether the template left a reasoning block open, which is closed here.
        fingerprint: SHA-256 of all that decides the ids of a message, in hexadecimal.
    """

    encoder: TextEncoder
    head: tuple[int, ...]
    before: str
    after: str
    tail: tuple[int, ...]
    rendered: tuple[str, str]
    closed_thinking: bool
    fingerprint: str

    @classmethod
    def from_template(cls, tokenizer: Any, settings: Mapping[str, Any] = TEMPLATE_SETTINGS) -> "PromptFrame":
        """Render the chat template around one user message, without a system message.

        Args:
            tokenizer: transformers' fast tokenizer, or mlx-lm's wrapper around one.
            settings: the variables that the template sees besides the messages.

        Raises:
            ModelRefused: there is no template, it fails, it changes the message, or the tokenizer
                cannot be split around a message.
        """
        encoder = TextEncoder.of(tokenizer)
        before, after = _surroundings(tokenizer, settings)
        closed = after.rfind(_OPEN) > after.rfind(_CLOSE)
        if closed:
            # The same empty block that Qwen's template writes when thinking is off.
            after = after.rstrip("\n") + f"\n\n{_CLOSE}\n\n"
        for marked in (True, False):
            candidate = encoder if marked else encoder.without_marks()
            frame = _split(candidate, before, after, closed)
            if all(frame.encode(each) == frame.reference(each) for each in _SENTINELS):
                return frame
        raise ModelRefused(
            "the tokenizer encodes a message differently inside its chat template than beside it."
        )

    @property
    def description(self) -> str:
        """What was found in the template, in a few words."""
        prefix = self.encoder.prefix
        return "chat template, {}, {}".format(
            f"begins with token {prefix[0]} once" if prefix else "no BOS",
            "open reasoning block closed" if self.closed_thinking else "no open reasoning block",
        )

    def encode(self, message: str) -> tuple[int, ...]:
        """The ids of the whole prompt; control tokens spelled in the message stay plain text."""
        return self.encode_many([message])[0]

    def encode_many(self, messages: Sequence[str]) -> list[tuple[int, ...]]:
        """The ids of one whole prompt per message, encoded on all CPUs."""
        texts = [self.before + message + self.after for message in messages]
        return [(*self.head, *ids, *self.tail) for ids in self.encoder.encode_texts(texts)]

    def least_tokens(self, text: str) -> int:
        """How many tokens a text has at least, without encoding it."""
        return self.encoder.least_tokens(text)

    def reference(self, message: str, label: str = "") -> tuple[int, ...]:
        """The ids that the model's own tokenizer gives the whole prompt; a check, not a service.

        Unlike `encode` it takes control tokens in the message for what they say.

        Args:
            message: a text of our own.
            label: what the answer begins with.
        """
        before, after = self.rendered
        text = before + message + after + label
        ids = tuple(self.encoder.full.encode(text, add_special_tokens=False).ids)
        return _with_prefix(self.encoder.prefix, ids)

    def label_id(self, label: str) -> int | None:
        """The one token that the label adds to the end of a prompt.

        None if it adds several, or melts into the prompt's last token.
        """
        prompt = self.reference(_SENTINELS[0])
        *same, last = self.reference(_SENTINELS[0], label) or (-1,)
        if tuple(same) != prompt:
            return None
        # A SentencePiece vocabulary's token may carry the mark of a word's beginning.
        spelled = self.encoder.full.decode([last], skip_special_tokens=False)
        return last if spelled.strip() == label else None


def _surroundings(tokenizer: Any, settings: Mapping[str, Any]) -> tuple[str, str]:
    """The text before and after a message, proved not to depend on it."""
    if not getattr(tokenizer, "has_chat_template", tokenizer.chat_template is not None):
        raise ModelRefused(
            "the model has no chat template: use its instruction-tuned version, or add a "
            "chat_template to its tokenizer."
        )
    found = set()
    for sentinel in _SENTINELS:
        try:
            text = tokenizer.apply_chat_template(
                [{"role": "user", "content": sentinel}],
                tokenize=False,
                add_generation_prompt=True,
                **settings,
            )
        except Exception as error:  # a template is a program of the model's maker
            reason = " ".join(str(error).split())
            raise ModelRefused(f"the chat template fails on one user message ({reason}).") from error
        shown = text.count(sentinel)
        if shown != 1:
            raise ModelRefused(
                f"the chat template shows a user's message {shown} times unchanged, and once is needed."
            )
        before, _, after = text.partition(sentinel)
        found.add((before, after))
    if len(found) != 1:
        raise ModelRefused("the chat template writes something else around another message.")
    return found.pop()


def _split(encoder: TextEncoder, before: str, after: str, closed: bool) -> PromptFrame:
    """Find the control tokens next to the message in the whole prompt's own encoding."""
    message = _SENTINELS[0]
    encoding = encoder.full.encode(before + message + after, add_special_tokens=False)
    ids, places = encoding.ids, encoding.offsets
    start, end = len(before), len(before) + len(message)
    first, last, left, right = 0, len(ids), 0, end + len(after)
    for index, (id_, (begins, ends)) in enumerate(zip(ids, places, strict=True)):
        if id_ not in encoder.control:
            continue
        if ends <= start:
            first, left = index + 1, ends
        elif begins >= end:
            last, right = index, begins
            break
    head = tuple(ids[:first])
    whole = _with_prefix(encoder.prefix, tuple(ids))
    return PromptFrame(
        encoder=encoder,
        head=(*whole[: len(whole) - len(ids)], *head),
        before=before[left:],
        after=after[: right - end],
        tail=tuple(ids[last:]),
        rendered=(before, after),
        closed_thinking=closed,
        fingerprint=_digest(json.dumps([before, after]), encoder.full, encoder.plain),
    )


def _with_prefix(prefix: tuple[int, ...], ids: tuple[int, ...]) -> tuple[int, ...]:
    """Some templates print the BOS themselves; it must not be there twice."""
    return ids if ids[: len(prefix)] == prefix else (*prefix, *ids)


def _digest(surroundings: str, *tokenizers: Tokenizer) -> str:
    digest = hashlib.sha256(surroundings.encode())
    for tokenizer in tokenizers:
        digest.update(tokenizer.to_str().encode())
    return digest.hexdigest()
