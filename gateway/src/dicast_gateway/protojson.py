"""A protobuf message as JSON in which numbers are numbers."""

from __future__ import annotations

import math
from collections.abc import MutableSequence
from typing import Any

from google.protobuf.message import Message


def to_json(message: Message) -> dict[str, Any]:
    """All fields in their order, those of no value too; enums by name, a number that is none as null.

    Protobuf's own mapping makes strings of NaN and of wide integers, which no client adds up.
    """
    return {
        field.name: _value(field, getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


def _value(field: Any, value: Any) -> Any:
    return [_one(field, each) for each in value] if isinstance(value, MutableSequence) else _one(field, value)


def _one(field: Any, value: Any) -> Any:
    if isinstance(value, Message):
        return to_json(value)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return value if named is None else named.name
    return None if isinstance(value, float) and not math.isfinite(value) else value
