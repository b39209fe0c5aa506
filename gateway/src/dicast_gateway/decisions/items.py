"""Input items of /v1/decisions: messages, and tool calls with their results, as evidence."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Tag

from dicast.v1 import decision_pb2 as pb
from dicast_gateway.content import FewFaults, Shape
from dicast_gateway.decisions.parts import (
    AssistantContent,
    Text,
    TextContent,
    ToolOutput,
    UserContent,
    one_of,
    to_content,
    type_tag,
)

_Status = Literal["in_progress", "completed", "incomplete"] | None


class UserMessage(Shape):
    """What the person said."""

    type: Literal["message"] = "message"
    role: Literal["user"]
    content: UserContent


class SystemMessage(Shape):
    """What the system or the developer said."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer"]
    content: TextContent


class AssistantMessage(Shape):
    """What the model said."""

    type: Literal["message"] = "message"
    role: Literal["assistant"]
    content: AssistantContent
    phase: Literal["commentary", "final_answer"] | None = None


class FunctionCall(Shape):
    """A call to a function, with the arguments as the model wrote them."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    id: str | None = None
    namespace: str | None = None
    status: _Status = None


class CustomToolCall(Shape):
    """A call to a custom tool, which takes text."""

    type: Literal["custom_tool_call"]
    call_id: str
    name: str
    input: str
    id: str | None = None
    namespace: str | None = None
    status: _Status = None


class ToolCallOutput(Shape):
    """What a function or a custom tool answered."""

    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: str
    output: ToolOutput
    id: str | None = None
    status: _Status = None


def _item_tag(node: Any) -> str | None:
    if not isinstance(node, dict):
        return None
    found = node.get("role") if node.get("type", "message") == "message" else type_tag(node)
    return found if isinstance(found, str) else None


Item = Annotated[
    Annotated[UserMessage, Tag("<user>")]
    | Annotated[SystemMessage, Tag("<system>")]
    | Annotated[SystemMessage, Tag("<developer>")]
    | Annotated[AssistantMessage, Tag("<assistant>")]
    | Annotated[FunctionCall, Tag("<function_call>")]
    | Annotated[CustomToolCall, Tag("<custom_tool_call>")]
    | Annotated[ToolCallOutput, Tag("<function_call_output>")]
    | Annotated[ToolCallOutput, Tag("<custom_tool_call_output>")],
    one_of(
        _item_tag,
        "a message of the role user, assistant, system or developer, or an item of type function_call, "
        "function_call_output, custom_tool_call or custom_tool_call_output",
    ),
]


def _input_tag(node: Any) -> str | None:
    if isinstance(node, str):
        return "text"
    return "items" if isinstance(node, list) else None


Input = Annotated[
    Text | Annotated[list[Item], FewFaults, Tag("<items>")],
    one_of(_input_tag, "a string or an array of input items"),
]

_ROLES = {
    "user": pb.Message.ROLE_USER,
    "assistant": pb.Message.ROLE_ASSISTANT,
    "system": pb.Message.ROLE_SYSTEM,
    "developer": pb.Message.ROLE_DEVELOPER,
}


def to_state(evidence: str | list[Item]) -> pb.State:
    """The input as protobuf."""
    if isinstance(evidence, str):
        return pb.State(text=evidence)
    return pb.State(items=pb.InputItems(items=[_item(item) for item in evidence]))


def _item(item: Item) -> pb.InputItem:
    match item:
        case UserMessage() | SystemMessage():
            return pb.InputItem(message=pb.Message(role=_ROLES[item.role], content=to_content(item.content)))
        case AssistantMessage():
            return pb.InputItem(
                message=pb.Message(
                    role=_ROLES[item.role], content=to_content(item.content), phase=item.phase or ""
                )
            )
        case FunctionCall() | CustomToolCall():
            call = pb.ToolCall(
                call_id=item.call_id,
                name=item.name,
                id=item.id or "",
                namespace=item.namespace or "",
                status=item.status or "",
            )
            if isinstance(item, FunctionCall):
                call.arguments = item.arguments
            else:
                call.text = item.input
            return pb.InputItem(call=call)
        case ToolCallOutput():
            return pb.InputItem(
                result=pb.ToolResult(
                    call_id=item.call_id,
                    output=to_content(item.output),
                    id=item.id or "",
                    status=item.status or "",
                )
            )
