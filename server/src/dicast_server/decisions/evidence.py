"""How a conversation becomes the text of a state: messages, tool calls and their results as evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dicast import jsontext
from dicast_server.decisions.questions import Content


@dataclass(frozen=True, slots=True)
class Message:
    """Something that was said by `user`, `assistant`, `system` or `developer`."""

    role: str
    parts: tuple[Content, ...]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that an assistant made; `input` is what it wrote."""

    name: str
    input: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered to a call; `name` is the tool's."""

    name: str
    parts: tuple[Content, ...]


Item: TypeAlias = Message | ToolCall | ToolResult


def state_text(items: Sequence[Item]) -> str:
    """Join parts by a newline and items by a blank line.

    A conversation of user messages alone is shown as it is. As soon as anything else takes part, each
    item gets a heading line that says who speaks: `[role]`, `[call NAME]` or `[result NAME]`.
    """
    if all(isinstance(item, Message) and item.role == "user" for item in items):
        return "\n\n".join(_body(item) for item in items)
    return "\n\n".join(f"[{_heading(item)}]\n{_body(item)}" for item in items)


def _heading(item: Item) -> str:
    if isinstance(item, Message):
        return item.role
    return f"call {item.name}" if isinstance(item, ToolCall) else f"result {item.name}"


def _body(item: Item) -> str:
    if isinstance(item, ToolCall):
        return item.input
    return parts_text(item.parts)


def parts_text(parts: Sequence[Content]) -> str:
    """Join the parts of a message or of instructions by a newline; JSON parts are written as JSON."""
    return "\n".join(part if isinstance(part, str) else jsontext.render(part.value) for part in parts)
