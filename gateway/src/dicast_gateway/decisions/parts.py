"""Texts of /v1/decisions: a string, or a list of parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Discriminator, PlainValidator, Tag, model_validator
from pydantic_core import PydanticCustomError

from dicast import jsontext
from dicast.v1 import decision_pb2 as pb
from dicast_gateway.content import FewFaults, Shape, to_json
from dicast_gateway.errors import UNSERVED

# Members of unions are tagged `<…>`, so that a path of pydantic can be told from a path of the JSON.
TAGS = frozenset(
    f"<{tag}>"
    for tag in (
        *("text", "items", "parts", "predicate", "choice", "score", "plugin"),
        *("input_text", "input_json", "input_image", "output_text", "refusal"),
        *("user", "system", "developer", "assistant"),
        *("function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"),
    )
)


def one_of(tag: Callable[[Any], str | None], wanted: str) -> Discriminator:
    """Tells the members of a union apart; the message says which there are."""

    def find(node: Any) -> str | None:
        found = tag(node)
        return None if found is None else f"<{found}>"

    return Discriminator(
        find, custom_error_type="union_member", custom_error_message=f"Input should be {wanted}"
    )


def type_tag(node: Any) -> str | None:
    """The member that the field `type` names."""
    found = node.get("type") if isinstance(node, dict) else None
    return found if isinstance(found, str) else None


def _text_or_parts(node: Any) -> str | None:
    if isinstance(node, str):
        return "text"
    return "parts" if isinstance(node, list) else None


class CacheBreakpoint(Shape):
    """Marks the end of a part as worth keeping."""

    mode: Literal["explicit"]


class TextPart(Shape):
    """A text part of an item."""

    type: Literal["input_text"]
    text: str
    prompt_cache_breakpoint: CacheBreakpoint | None = None


class QuestionTextPart(Shape):
    """A text part of a question."""

    type: Literal["input_text"]
    text: str


def _check_data(node: Any) -> Any:
    if isinstance(node, jsontext.Object):
        return node
    if isinstance(node, list) and all(isinstance(item, jsontext.Object) for item in node):
        return node
    raise PydanticCustomError("json_data", "Input should be an object or an array of objects")


class JsonPart(Shape):
    """A JSON part."""

    type: Literal["input_json"]
    data: Annotated[Any, PlainValidator(_check_data)]


class ImagePart(Shape):
    """An image part, which no model here can see."""

    type: Literal["input_image"]

    @model_validator(mode="before")
    @classmethod
    def _refuse(cls, node: Any) -> Any:
        raise PydanticCustomError(UNSERVED, "images are not served yet: send text or JSON")


class OutputTextPart(Shape):
    """What an assistant said."""

    type: Literal["output_text"]
    text: str


class RefusalPart(Shape):
    """What an assistant said when it declined."""

    type: Literal["refusal"]
    refusal: str


Text = Annotated[str, Tag("<text>")]
_Text = Annotated[TextPart, Tag("<input_text>")]
_QuestionText = Annotated[QuestionTextPart, Tag("<input_text>")]
_Json = Annotated[JsonPart, Tag("<input_json>")]
_Image = Annotated[ImagePart, Tag("<input_image>")]
_OutputText = Annotated[OutputTextPart, Tag("<output_text>")]
_Refusal = Annotated[RefusalPart, Tag("<refusal>")]

_TEXT_OR_PARTS = one_of(_text_or_parts, "a string or an array of parts")
_ANY_PART = one_of(type_tag, "a part of type input_text, input_json or input_image")
_OUTPUT_PART = one_of(type_tag, "a part of type output_text or refusal")

UserParts = Annotated[list[Annotated[_Text | _Json | _Image, _ANY_PART]], FewFaults, Tag("<parts>")]
ToolParts = Annotated[
    list[Annotated[_Text | _Image, one_of(type_tag, "a part of type input_text or input_image")]],
    FewFaults,
    Tag("<parts>"),
]
TextParts = Annotated[
    list[Annotated[_Text | _Image, one_of(type_tag, "a part of type input_text")]], FewFaults, Tag("<parts>")
]
AssistantParts = Annotated[list[Annotated[_OutputText | _Refusal, _OUTPUT_PART]], FewFaults, Tag("<parts>")]
QuestionParts = Annotated[
    list[Annotated[_QuestionText | _Json | _Image, _ANY_PART]], FewFaults, Tag("<parts>")
]

UserContent = Annotated[Text | UserParts, _TEXT_OR_PARTS]
TextContent = Annotated[Text | TextParts, _TEXT_OR_PARTS]
AssistantContent = Annotated[Text | AssistantParts, _TEXT_OR_PARTS]
ToolOutput = Annotated[Text | ToolParts, _TEXT_OR_PARTS]
Instructions = Annotated[Text | QuestionParts, _TEXT_OR_PARTS]

AnyPart = TextPart | QuestionTextPart | JsonPart | ImagePart | OutputTextPart | RefusalPart


def to_content(content: Any) -> pb.Content:
    """A string or a list of parts as protobuf."""
    if isinstance(content, str):
        return pb.Content(text=content)
    return pb.Content(parts=pb.ContentParts(parts=[_part(part) for part in content]))


def _part(part: AnyPart) -> pb.ContentPart:
    match part:
        case TextPart():
            return pb.ContentPart(text=part.text, cache_breakpoint=part.prompt_cache_breakpoint is not None)
        case QuestionTextPart() | OutputTextPart():
            return pb.ContentPart(text=part.text)
        case JsonPart():
            return pb.ContentPart(json=to_json(part.data))
        case RefusalPart():
            return pb.ContentPart(refusal=part.refusal)
        case ImagePart():
            raise AssertionError("image parts are refused where they are read")
