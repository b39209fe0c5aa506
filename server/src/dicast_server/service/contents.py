"""From the contract's content, states and items to plain values, each fault with the path of its field."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dicast import jsontext
from dicast.v1 import decision_pb2 as pb
from dicast_server.decisions.evidence import Item, Message, ToolCall, ToolResult, parts_text
from dicast_server.decisions.questions import Content, Json
from dicast_server.service import failures
from dicast_server.service.failures import Violation

StateContent: TypeAlias = Content | tuple[Item, ...]
"""A state as it was sent: text, JSON or the items of a conversation."""

_IMAGES = "images are not read by this model; send text or JSON"
_ROLES = {
    pb.Message.ROLE_USER: "user",
    pb.Message.ROLE_ASSISTANT: "assistant",
    pb.Message.ROLE_SYSTEM: "system",
    pb.Message.ROLE_DEVELOPER: "developer",
}


@dataclass(slots=True)
class Faults:
    """Gathers what is wrong with a request, so that its caller hears of everything at once."""

    invalid: list[Violation] = field(default_factory=list)
    beyond_limits: list[Violation] = field(default_factory=list)
    not_supported: list[Violation] = field(default_factory=list)

    def refuse(self, path: str, description: str) -> None:
        """A field breaks the contract."""
        self.invalid.append(Violation(path, description))

    def limit(self, path: str, description: str) -> None:
        """A count passes a limit."""
        self.beyond_limits.append(Violation(path, description))

    def unsupported(self, path: str, description: str) -> None:
        """A field is well-formed and not served."""
        self.not_supported.append(Violation(path, description))

    def check(self) -> None:
        """Raise INVALID_ARGUMENT where anything is wrong; the gravest kind names the reason."""
        everything = [*self.invalid, *self.beyond_limits, *self.not_supported]
        if not everything:
            return
        below_invalid = "LIMIT_EXCEEDED" if self.beyond_limits else "NOT_SUPPORTED"
        raise failures.invalid(everything, "INVALID" if self.invalid else below_invalid)


def read_state(state: pb.State, faults: Faults) -> StateContent | None:
    """A request's state; None where it is missing or at fault. Repeated keys in it are kept."""
    kind = state.WhichOneof("kind")
    if kind == "text":
        return state.text
    if kind == "json":
        value = _parse(state.json, "state", faults, repeated_keys=True)
        if value is None:
            faults.refuse("state", "is null; send text, an object or an array")
        return value if isinstance(value, Json) else None
    if kind == "items":
        return _items(state.items.items, faults)
    faults.refuse("state", "is missing: say what the questions are about, as text, JSON or items")
    return None


def read_content(content: pb.Content, path: str, faults: Faults) -> Content | None:
    """Text or JSON; None where it is JSON null or at fault."""
    kind = content.WhichOneof("kind")
    if kind == "text":
        return content.text
    if kind == "json":
        value = _parse(content.json, path, faults)
        return value if isinstance(value, Json) else None
    if kind == "parts":
        return parts_text(_parts(content.parts.parts, path, faults))
    faults.refuse(path, "is empty: set text, json or parts, or leave the field out")
    return None


def read_object(text: str, path: str, faults: Faults) -> jsontext.Object | None:
    """The JSON object that a plugin reads; None where it is at fault. No text is an empty object."""
    value = _parse(text or "{}", path, faults)
    if isinstance(value, Json) and isinstance(value.value, jsontext.Object):
        return value.value
    if value is None or isinstance(value, Json):
        faults.refuse(path, "must be a JSON object")
    return None


def state_hash(state: pb.State) -> str:
    """SHA-256 in hexadecimal of a state's bytes as they were sent."""
    match state.WhichOneof("kind"):
        case "text":
            sent = state.text.encode()
        case "json":
            sent = state.json.encode()
        case _:
            sent = state.items.SerializeToString(deterministic=True)
    return hashlib.sha256(sent).hexdigest()


def _parse(text: str, path: str, faults: Faults, repeated_keys: bool = False) -> Json | str | None:
    """Parsed JSON; None for null; the text itself where it is at fault, which has been noted."""
    try:
        value = jsontext.parse(text)
    except jsontext.JsonError as error:
        faults.refuse(path, str(error))
        return text
    if not repeated_keys and (where := jsontext.find_repeated_key(value)) is not None:
        faults.refuse(path, f"repeats the key {jsontext.show_path(where)!r}; each key may occur once")
        return text
    return None if value is None else Json(value)


def _items(items: Sequence[pb.InputItem], faults: Faults) -> tuple[Item, ...] | None:
    if not items:
        faults.refuse("state.items", "is empty: send at least one item")
        return None
    calls: dict[str, str] = {}
    read: list[Item] = []
    for index, item in enumerate(items):
        path = f"state.items[{index}]"
        kind = item.WhichOneof("item")
        if kind == "message":
            role = _ROLES.get(item.message.role)
            if role is None:
                faults.refuse(f"{path}.message.role", "must be user, assistant, system or developer")
            parts = _message_parts(item.message.content, f"{path}.message.content", faults)
            read.append(Message(role or "user", parts))
        elif kind == "call":
            call = item.call
            if call.WhichOneof("input") is None:
                faults.refuse(f"{path}.call", "has neither arguments nor text")
            calls[call.call_id] = call.name
            read.append(ToolCall(call.name, call.arguments or call.text))
        elif kind == "result":
            name = calls.get(item.result.call_id)
            if name is None:
                faults.refuse(
                    f"{path}.result.call_id", "names no earlier call of this request; send the call before it"
                )
            parts = _message_parts(item.result.output, f"{path}.result.output", faults)
            read.append(ToolResult(name or "", parts))
        else:
            faults.refuse(path, "is empty: set message, call or result")
    return tuple(read)


def _message_parts(content: pb.Content, path: str, faults: Faults) -> tuple[Content, ...]:
    if content.WhichOneof("kind") == "parts":
        return _parts(content.parts.parts, path, faults)
    read = read_content(content, path, faults)
    return () if read is None else (read,)


def _parts(parts: Sequence[pb.ContentPart], path: str, faults: Faults) -> tuple[Content, ...]:
    read: list[Content] = []
    for index, part in enumerate(parts):
        where = f"{path}.parts[{index}]"
        kind = part.WhichOneof("part")
        if kind == "text":
            read.append(part.text)
        elif kind == "refusal":
            read.append(part.refusal)
        elif kind == "json":
            # Evidence like a state: what it repeats is kept as written.
            value = _parse(part.json, where, faults, repeated_keys=True)
            read.append(value if isinstance(value, Json) else "null")
        elif kind == "image":
            faults.unsupported(where, _IMAGES)
        else:
            faults.refuse(where, "is empty: set text, json, image or refusal")
    return tuple(read)
