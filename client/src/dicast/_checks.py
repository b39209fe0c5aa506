"""Checks of values that are about to be sent: what has no form raises an error with its path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.message import Message

from dicast._questions import Json
from dicast.jsontext import JsonError, Path, encode, is_text, show_path


def json_text(given: Any, path: Path) -> str:
    """A value as JSON text."""
    if isinstance(given, Json):
        return given.text
    try:
        return encode(given)
    except JsonError as error:
        raise JsonError(error.problem, (*path, *error.path)) from None


def text(given: Any, path: Path) -> str:
    """A str that can be written as UTF-8."""
    if not isinstance(given, str):
        raise unfit(given, "str", path)
    if not is_text(given):
        raise JsonError("holds a lone surrogate, which is no character", path)
    return given


def texts(given: Any, path: Path) -> list[str]:
    """A sequence of them."""
    return [text(each, (*path, index)) for index, each in enumerate(sequence(given, path))]


def sequence(given: Any, path: Path) -> Sequence[Any]:
    """A list or a tuple, not a str."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise unfit(given, "a sequence", path)
    return given


def pick(names: Mapping[Any, Any], given: Any, path: Path) -> Any:
    """What a name stands for."""
    if isinstance(given, str | None) and given in names:
        return names[given]
    known = ", ".join(repr(name) for name in names)
    raise ValueError(f"{show_path(path)}: {given!r} is none of {known}")


def assign(message: Message, field: str, value: object, path: Path) -> None:
    """Set a field to a number that it can hold."""
    try:
        setattr(message, field, value)
    except (TypeError, ValueError) as error:  # protobuf names neither the field nor its path
        raise type(error)(f"{show_path(path)}: {error}") from None


def unfit(given: object, wanted: str, path: Path) -> TypeError:
    """The error of a value of the wrong type."""
    return TypeError(f"{show_path(path)} takes {wanted}, not {type(given).__name__}")
