"""JSON as text: reads it without losing number text, key order or repeated keys, and writes it back.

A state's wording reaches a language model, so what Python's `json` drops would change an answer: the
difference between `1` and `1.0`, integers past 2^53, a key that occurs twice. A JSON value is therefore
carried as UTF-8 text, and parsed with the types of this module:

    null, true, false, strings, arrays    None, bool, str, list
    numbers                               Number, a float that keeps its text
    objects                               Object, a dict that keeps its pairs as written
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

MAX_DEPTH = 128
"""Arrays and objects may nest this deep; the server publishes it as `Limits.json_depth`."""

Value: TypeAlias = "bool | Number | str | list[Value] | Object | None"
Path: TypeAlias = tuple[str | int, ...]

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_INT_DIGITS = 4000
_TOO_DEEP = f"nests deeper than {MAX_DEPTH} levels"


class JsonError(ValueError):
    """A text is not JSON that can be carried.

    Attributes:
        path: keys and indices from the top of the value to the fault; empty for the value itself.
        problem: what is wrong, without the path.
    """

    def __init__(self, problem: str, path: Path = ()) -> None:
        super().__init__(f"{show_path(path)}: {problem}" if path else problem)
        self.problem = problem
        self.path = path


class Number(float):
    """A JSON number: compares as a float, prints as it was written."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Number:
        """Read `text`, a JSON number. Raises JsonError where it is none or no finite double."""
        if not _NUMBER.fullmatch(text):
            raise JsonError(f"{text[:40]!r} is no JSON number")
        number = super().__new__(cls, text)
        number.text = text
        if math.isinf(number) and not number.is_integer_text:
            raise JsonError(f"the number {text[:40]} is beyond what a double can hold")
        return number

    @property
    def is_integer_text(self) -> bool:
        """Whether the text has neither a fraction nor an exponent: such numbers may be of any size."""
        return self.text.lstrip("-").isdigit()

    def __repr__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type[Number], tuple[str]]:
        return (Number, (self.text,))


class Object(dict[str, "Value"]):
    """A JSON object. As a dict the last of repeated keys wins; `pairs` has them all, in order."""

    __slots__ = ("pairs",)
    pairs: tuple[tuple[str, Value], ...]

    def __init__(self, pairs: Iterable[tuple[str, Value]] = ()) -> None:
        self.pairs = tuple(pairs)
        super().__init__(self.pairs)

    @property
    def repeated(self) -> str | None:
        """The first key that occurs a second time, or None."""
        if len(self) == len(self.pairs):
            return None
        seen: set[str] = set()
        for key, _ in self.pairs:
            if key in seen:
                return key
            seen.add(key)
        return None


def parse(text: str | bytes) -> Value:
    """Read one JSON value.

    Raises:
        JsonError: not UTF-8, not JSON, NaN or Infinity, a number that no double holds (integers may be
            of any size), a lone surrogate, or nesting deeper than MAX_DEPTH.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise JsonError(f"is not UTF-8 (byte {error.start})") from None
    try:
        value: Value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise JsonError(f"is not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except RecursionError:
        raise JsonError(_TOO_DEEP) from None
    _check(value, (), 0)
    return value


def render(value: Value, item_separator: str = ", ", key_separator: str = ": ") -> str:
    """Write a parsed value: keys as written, non-ASCII kept, numbers verbatim."""
    if isinstance(value, Number):
        return value.text
    if isinstance(value, Object):
        items = (
            _quote(key) + key_separator + render(item, item_separator, key_separator)
            for key, item in value.pairs
        )
        return "{" + item_separator.join(items) + "}"
    if isinstance(value, list):
        items = (render(item, item_separator, key_separator) for item in value)
        return "[" + item_separator.join(items) + "]"
    return _quote(value)


def encode(value: Any) -> str:
    """Write a Python value (dict, list, tuple, str, int, float, bool, None) as JSON text.

    Raises:
        JsonError: the value has no JSON form: NaN, a lone surrogate, a key that is no string, another
            type, nesting deeper than MAX_DEPTH.
    """
    try:
        converted = _convert(value, ())
    except RecursionError:
        raise JsonError(_TOO_DEEP) from None
    _check(converted, (), 0)
    return render(converted)


def plain(value: Value) -> Any:
    """The value as Python's own json module would have read it: int and float, plain dicts."""
    if isinstance(value, Number):
        if not value.is_integer_text:
            return float(value)
        # Python refuses to read integers of thousands of digits; Number prints them as they are.
        return int(value.text) if len(value.text) <= _INT_DIGITS else value
    if isinstance(value, Object):
        return {key: plain(item) for key, item in value.pairs}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def find_repeated_key(value: Value) -> Path | None:
    """The path of the first object key that occurs twice, or None."""
    if isinstance(value, Object):
        if (key := value.repeated) is not None:
            return (key,)
        children: Iterable[tuple[str | int, Value]] = value.pairs
    elif isinstance(value, list):
        children = enumerate(value)
    else:
        return None
    for step, child in children:
        if (path := find_repeated_key(child)) is not None:
            return (step, *path)
    return None


def show_path(path: Path) -> str:
    """A path for people: `questions.late.criteria[0]`."""
    shown = ""
    for step in path:
        if isinstance(step, int):
            shown += f"[{step}]"
        else:
            shown += f".{step}" if shown else step
    return shown


def is_text(text: str) -> bool:
    """Whether a string can be written as UTF-8, which a lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check(value: Value, path: Path, depth: int) -> None:
    if isinstance(value, str):
        if not is_text(value):
            raise JsonError("holds a lone surrogate, which is no character", path)
        return
    if isinstance(value, Object):
        if depth >= MAX_DEPTH:
            raise JsonError(_TOO_DEEP)
        for key, item in value.pairs:
            if not is_text(key):
                raise JsonError("has a key with a lone surrogate, which is no character", path)
            _check(item, (*path, key), depth + 1)
    elif isinstance(value, list):
        if depth >= MAX_DEPTH:
            raise JsonError(_TOO_DEEP)
        for index, item in enumerate(value):
            _check(item, (*path, index), depth + 1)


def _refuse_constant(name: str) -> Value:
    raise JsonError(f"{name} is no JSON number")


def _convert(value: Any, path: Path) -> Value:
    if value is None or isinstance(value, (bool, str, Number, Object)):
        return value
    if isinstance(value, int):
        return Number(str(value))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise JsonError(f"{value} is no JSON number", path)
        return Number(repr(value))
    if isinstance(value, (list, tuple)):
        return [_convert(item, (*path, index)) for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise JsonError("has a key that is no string", path)
        return Object((key, _convert(item, (*path, key))) for key, item in value.items())
    raise JsonError(f"a {type(value).__name__} has no JSON form", path)


def _quote(value: bool | str | None) -> str:
    return json.dumps(value, ensure_ascii=False)


_DECODER = json.JSONDecoder(
    object_pairs_hook=Object,
    parse_float=Number,
    parse_int=Number,
    parse_constant=_refuse_constant,
)
