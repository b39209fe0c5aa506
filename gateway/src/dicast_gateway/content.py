"""Texts and JSON values of a request, on their way from a parsed body into protobuf."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, PlainValidator
from pydantic_core import PydanticCustomError

from dicast import jsontext
from dicast.v1 import decision_pb2 as pb


class Shape(BaseModel):
    """A JSON object with exactly these fields, of exactly these types."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def _check_content(node: Any) -> Any:
    if not isinstance(node, str | list | jsontext.Object):
        raise PydanticCustomError("content_type", "Input should be a string, an object or an array")
    return node


Content = Annotated[Any, PlainValidator(_check_content)]
"""A string, an object or an array, as it was parsed: key order, repeated keys and number text stay."""


def to_json(node: jsontext.Value) -> str:
    """A parsed node as JSON text, without spaces, so that what fits into a body fits into a message."""
    return jsontext.render(node, ",", ":")


def to_content(node: jsontext.Value) -> pb.Content:
    """A parsed node as protobuf. Null is a value; where nothing was said there is no Content at all."""
    if isinstance(node, str):
        return pb.Content(text=node)
    return pb.Content(json=to_json(node))


def to_state(node: jsontext.Value) -> pb.State:
    """A parsed node as the state of a request."""
    if isinstance(node, str):
        return pb.State(text=node)
    return pb.State(json=to_json(node))


def said(shape: Shape, field: str) -> bool:
    """Whether a field was in the JSON: null and absent are two things."""
    return field in shape.model_fields_set
