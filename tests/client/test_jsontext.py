"""JSON text survives: numbers as written, keys in order, repeated keys, any size and any script."""

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicast import jsontext

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_encoding_is_what_json_reads_back(value: Any) -> None:
    assert json.loads(jsontext.encode(value)) == value


@given(VALUES)
def test_rendering_is_pythons_json_with_non_ascii_kept(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert jsontext.render(jsontext.parse(text)) == text


@given(VALUES, st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:")]))
def test_white_space_and_escapes_never_change_the_rendering(value: Any, separators: tuple[str, str]) -> None:
    spaced = jsontext.parse(json.dumps(value, separators=separators, ensure_ascii=True))
    assert jsontext.render(spaced) == jsontext.encode(value)


@given(VALUES)
def test_plain_is_what_json_would_have_read(value: Any) -> None:
    assert jsontext.plain(jsontext.parse(json.dumps(value))) == value


@pytest.mark.parametrize(
    "text", ["1.0", "1e5", "-0", "0.10", "1E+2", str(2**60), "9" * 5000, '{"b": 1, "a": 2, "b": 3}', "[-0.0]"]
)
def test_what_was_written_comes_back(text: str) -> None:
    assert jsontext.render(jsontext.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not JSON"),
        ("{} x", "not JSON"),
        ('{"a": 1,}', "not JSON"),
        ("01", "not JSON"),
        ("'a'", "not JSON"),
        ('"\x01"', "not JSON"),
        ("NaN", "no JSON number"),
        ("[-Infinity]", "no JSON number"),
        ("1e999", "beyond what a double can hold"),
        ('"\\ud83d"', "lone surrogate"),
        ('{"\\udc00": 1}', "lone surrogate"),
        ("[" * 129 + "]" * 129, "deeper than 128"),
        ("[" * 100_000, "deeper than 128"),
        ('{"a":' * 1500 + "1" + "}" * 1500, "deeper than 128"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_what_cannot_be_carried_is_refused(text: str | bytes, problem: str) -> None:
    with pytest.raises(jsontext.JsonError, match=problem):
        jsontext.parse(text)


def test_the_deepest_value_that_is_allowed() -> None:
    text = "[" * 128 + "]" * 128
    assert jsontext.render(jsontext.parse(text)) == text


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, float("nan")]}, ("a", 1)),
        ({"a": {"b": object()}}, ("a", "b")),
        ({"a": {3: "x"}}, ("a",)),
        ({"a": ["\ud800"]}, ("a", 0)),
    ],
)
def test_values_without_a_json_form_are_refused_with_their_path(value: Any, path: jsontext.Path) -> None:
    with pytest.raises(jsontext.JsonError) as caught:
        jsontext.encode(value)
    assert caught.value.path == path


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(jsontext.JsonError, match="deeper"):
        jsontext.encode(loop)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"a": 1, "a": 2}', ("a",)),
        ('{"x": [{"a": 1}, {"b": 1, "c": 2, "b": 1}]}', ("x", 1, "b")),
        ('{"a": {"b": 1}, "c": {"b": 1}}', None),
    ],
)
def test_repeated_keys_are_found_with_their_path(text: str, path: jsontext.Path | None) -> None:
    assert jsontext.find_repeated_key(jsontext.parse(text)) == path


def test_numbers_compare_as_floats_and_keep_their_text() -> None:
    number = jsontext.parse("1.50")
    assert isinstance(number, jsontext.Number)
    assert number == 1.5
    assert pickle.loads(pickle.dumps(number)).text == "1.50"


def test_paths_read_like_code() -> None:
    assert jsontext.show_path(("questions", "late", "criteria", 0)) == "questions.late.criteria[0]"
