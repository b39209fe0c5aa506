"""Texts and JSON values of a request, on their way from a parsed body into protobuf."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    PlainValidator,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dicast import jsontext
from dicast.v1 import decision_pb2 as pb
from dicast_gateway.errors import MAX_FAULTS, UNSERVED


class Shape(BaseModel):
    """A JSON object with exactly these fields, of exactly these types."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _few_unknown(cls, node: Any) -> Any:
        """Leaves no more unknown fields than are told: a fault costs kilobytes, and the field four bytes."""
        if not isinstance(node, dict) or len(node) <= len(cls.model_fields) + MAX_FAULTS:
            return node
        told = set(islice((name for name in node if name not in cls.model_fields), MAX_FAULTS))
        return {name: value for name, value in node.items() if name in cls.model_fields or name in told}


def _in_pieces(node: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    if not isinstance(node, list | dict) or len(node) <= MAX_FAULTS:
        return validate(node)
    kind, entries = (list, list(node)) if isinstance(node, list) else (dict, list(node.items()))
    read: list[Any] = []
    faults = 0
    for end in range(MAX_FAULTS, len(entries) + MAX_FAULTS, MAX_FAULTS):
        try:
            piece = validate(kind(entries[end - MAX_FAULTS : end]))
        except ValidationError as error:
            faults += error.error_count()
            if faults >= MAX_FAULTS:
                # So much as one list, so that the places are right.
                return validate(kind(entries[:end]))
        else:
            read += piece if kind is list else piece.items()
    return validate(node) if faults else kind(read)


FewFaults = WrapValidator(_in_pieces)
"""A list or a dict that is read no further than to as many faults as are told: each costs kilobytes."""


def unserved(message: str) -> AfterValidator:
    """Refuses a field that the contract or another server has and this version does not; null is fine."""

    def refuse(node: Any) -> Any:
        if node is not None:
            raise PydanticCustomError(UNSERVED, message)
        return node

    return AfterValidator(refuse)


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
