"""Labelled questions from CSV: each record becomes a row in System One's form."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from dicast import jsontext
from dicast_server.calibration.labels import RowFault

COLUMNS = ("state", "state_json", "type", "instructions", "options", "expected", "group", "id")
"""`state` is text as it stands and `state_json` is JSON, of which a record has one. `options` are JSON as
in System One's criteria, an array of a choice's names, or names or levels between bars (`a|b|c`)."""

_OTHER_SIGNS = {";": "semicolons", "\t": "tabs"}
"""What some spreadsheets write between cells instead."""

_REQUIRED = ("type", "expected")


def records(text: str) -> Iterator[tuple[int, list[str] | RowFault]]:
    """The records of a CSV text, each with the line that it begins on; the header is the first.

    Records without anything in them are left out. What is no CSV ends the file with a fault.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            # The module's limit of a cell belongs to the process: it stays as it is.
            hint = "; write such rows as JSONL" if "field larger" in str(error) else ""
            yield line, RowFault(f"is not CSV: {error}{hint}")
            return
        # Spreadsheets write rows that look empty as commas.
        if any(cell.strip() for cell in cells):
            yield line, cells
        line = reader.line_num + 1


def check_header(header: list[str]) -> None:
    """Raises RowFault where a column is missing or occurs twice. Columns of other names mean nothing."""
    known = [name for name in header if name in COLUMNS]
    if len(set(known)) < len(known):
        twice = next(name for name in known if known.count(name) > 1)
        raise RowFault(f"the header has the column {twice} twice")
    missing = [name for name in _REQUIRED if name not in header]
    if "state" not in header and "state_json" not in header:
        missing.insert(0, "state")
    if missing:
        cut = next(
            (name for sign, name in _OTHER_SIGNS.items() if len(header) == 1 and sign in header[0]), ""
        )
        hint = f"; its cells are cut by {cut}, and must be by commas" if cut else ""
        raise RowFault(f"the header lacks {', '.join(missing)}; columns are {', '.join(COLUMNS)}{hint}")


def row(header: list[str], cells: list[str]) -> jsontext.Object:
    """A record as a row of System One's form.

    Raises:
        RowFault: cells are missing or too many, or one that is to be JSON is not.
    """
    if len(cells) != len(header):
        raise RowFault(f"has {len(cells)} cells and the header {len(header)}")
    named = dict(zip(header, cells, strict=True))
    question: list[tuple[str, jsontext.Value]] = [
        ("type", named["type"].strip() or None),
        ("instructions", named.get("instructions") or None),
        ("criteria", _criteria(named["type"].strip(), named.get("options", "").strip())),
    ]
    return jsontext.Object(
        [
            ("state", _state(named)),
            ("question", jsontext.Object(question)),
            ("expected", named["expected"].strip() or None),
            ("group", named.get("group", "").strip() or None),
            ("id", named.get("id", "").strip() or None),
        ]
    )


def _state(named: dict[str, str]) -> jsontext.Value:
    as_json = named.get("state_json", "").strip()
    if not as_json:
        return named.get("state") or None
    if named.get("state"):
        raise RowFault("state: state and state_json are both given")
    return _parse(as_json, "state_json")


def _criteria(type_: str, options: str) -> jsontext.Value:
    if not options:
        return None
    if options[0] in "{[":
        parsed = _parse(options, "options")
        if type_ == "choice" and isinstance(parsed, list):
            return _named(parsed)
        return parsed
    names: list[jsontext.Value] = [name.strip() for name in options.split("|")]
    return _named(names) if type_ == "choice" else names


def _named(names: list[jsontext.Value]) -> jsontext.Value:
    """Names of options as criteria without descriptions."""
    texts = [name for name in names if isinstance(name, str)]
    if len(texts) < len(names):
        raise RowFault("options: a choice's names must be strings")
    return jsontext.Object((name, None) for name in texts)


def _parse(text: str, column: str) -> jsontext.Value:
    try:
        return jsontext.parse(text)
    except jsontext.JsonError as error:
        raise RowFault(f"{column}: {error}") from None
