"""A prompt cut at its control tokens, and what is written behind a template to reach the answer."""

from collections.abc import Sequence
from dataclasses import dataclass

from dicast_server.models.tokenizer import TextEncoder


@dataclass(frozen=True, slots=True)
class Stretch:
    """One control token, or the text between two, with its ids in the whole prompt."""

    text: str
    ids: tuple[int, ...]
    control: bool


@dataclass(frozen=True, slots=True)
class Opening:
    """How a reply begins: pieces behind the prompt, each a control token's spelling or plain text.

    `lead` is what comes between them and the first letter of an answer.
    """

    name: str
    pieces: tuple[str, ...] = ()
    lead: str = ""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The marks around a model's reasoning, and the white space of an empty block."""

    open: str
    close: str
    inside: str = ""
    behind: str = ""

    @property
    def closing(self) -> tuple[str, ...]:
        """What makes an empty block of an open one."""
        return tuple(filter(None, (self.inside, self.close, self.behind)))

    @property
    def empty(self) -> Opening:
        """A whole empty block."""
        return Opening(f"an empty {self.open} block", (self.open, *self.closing))


# Qwen's template writes its empty block so when thinking is off.
REASONING = (Reasoning("<think>", "</think>", "\n\n", "\n\n"), Reasoning("[THINK]", "[/THINK]"))
# GPT-OSS chooses a channel by itself, and would choose the one of its reasoning.
_CHANNEL_HEADER, _FINAL_CHANNEL = "<|start|>assistant", ("<|channel|>", "final", "<|message|>")
_SPACE = Opening("a space before the answer", lead=" ")


def cut(encoder: TextEncoder, text: str) -> list[Stretch]:
    """Cut a prompt of our own at the control tokens that the model's tokenizer finds in it."""
    encoding = encoder.full.encode(text, add_special_tokens=False)
    stretches: list[Stretch] = []
    left, run = 0, list[int]()
    for id_, (begins, ends) in zip(encoding.ids, encoding.offsets, strict=True):
        if id_ not in encoder.control:
            run.append(id_)
            continue
        if run or left < begins:
            stretches.append(Stretch(text[left:begins], tuple(run), False))
        stretches.append(Stretch(text[begins:ends], (id_,), True))
        left, run = ends, []
    if run or left < len(text):
        stretches.append(Stretch(text[left:], tuple(run), False))
    return stretches


def appended(encoder: TextEncoder, stretches: Sequence[Stretch], pieces: Sequence[str]) -> list[Stretch]:
    """The stretches with pieces behind them, a control token wherever a piece spells one."""
    grown = list(stretches)
    for piece in pieces:
        if (id_ := encoder.control_id(piece)) is not None:
            grown.append(Stretch(piece, (id_,), True))
            continue
        joined = grown.pop().text + piece if grown and not grown[-1].control else piece
        before = grown[-1].ids[0] if grown else None
        (ids,) = encoder.following(before, [joined])
        grown.append(Stretch(joined, tuple(ids), False))
    return grown


def closed(encoder: TextEncoder, stretches: list[Stretch], after: str) -> tuple[list[Stretch], str]:
    """Close what a template left open before the answer, and say in a few words what that was.

    Args:
        encoder: encodes what is written.
        stretches: the prompt as the template wrote it.
        after: the template's text behind the message.
    """
    if after.rstrip().endswith(_CHANNEL_HEADER) and encoder.control_id(_FINAL_CHANNEL[0]) is not None:
        return appended(encoder, _stripped(encoder, stretches), _FINAL_CHANNEL), "final channel opened"
    for kind in REASONING:
        if after.rfind(kind.open) > after.rfind(kind.close):
            grown = appended(encoder, _stripped(encoder, stretches), kind.closing)
            return grown, "open reasoning block closed"
    return stretches, "no open reasoning block"


def openings(encoder: TextEncoder, control: int | None, text: str, lead: str) -> list[Opening]:
    """What else a reply could begin with, where a model does not answer right away.

    Args:
        encoder: knows the control tokens.
        control: the last control token of the prompt.
        text: what is behind it.
        lead: what already comes before an answer.
    """
    found = [
        kind.empty
        for kind in REASONING
        if None not in (encoder.control_id(kind.open), close := encoder.control_id(kind.close))
        and (control != close or text.strip())
    ]
    if text and not text[-1].isspace() and not lead:
        found.append(_SPACE)
    return found


def _stripped(encoder: TextEncoder, stretches: Sequence[Stretch]) -> list[Stretch]:
    """Without the line breaks at the end."""
    *kept, last = stretches
    text = last.text.rstrip("\n")
    if last.control or text == last.text:
        return [*kept, last]
    return appended(encoder, kept, [text]) if text else kept
