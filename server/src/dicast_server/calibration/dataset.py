"""Labelled questions from a file: JSONL or CSV, all faults told at once with their lines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dicast import jsontext
from dicast_server.calibration import spreadsheet
from dicast_server.calibration.labelled import LabelledQuestion, read_row
from dicast_server.calibration.labels import RowFault

MAX_FAULTS = 20


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a line; 0 is the file as a whole."""

    line: int
    problem: str


class DatasetError(ValueError):
    """A file of labelled questions cannot be used.

    Attributes:
        path: the file.
        faults: MAX_FAULTS at most, in the order of the lines.
        more: how many faults are not told.
    """

    def __init__(self, path: Path, faults: tuple[Fault, ...], more: int = 0) -> None:
        self.path, self.faults, self.more = path, faults, more
        told = [
            f"{path}, line {each.line}: {each.problem}" if each.line else f"{path}: {each.problem}"
            for each in faults
        ]
        super().__init__("\n".join([*told, *([f"and {more} more"] if more else [])]))


@dataclass(frozen=True, slots=True)
class Dataset:
    """The questions of a file in its order, and the SHA-256 of its bytes in hexadecimal."""

    questions: tuple[LabelledQuestion, ...]
    sha256: str


def read_dataset(path: Path) -> Dataset:
    """Read a file: CSV where its name ends in .csv, else a JSON object a line (blank lines are left out).

    Raises:
        DatasetError: the file is missing, not UTF-8 or without rows, or rows are wrong: malformed, a label
            not among the options, an id that occurs twice.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DatasetError(path, (Fault(0, f"cannot be read: {error.strerror}"),)) from error
    questions: list[LabelledQuestion] = []
    faults: list[Fault] = []
    lines: dict[str, int] = {}
    rows = _csv_rows if path.suffix.lower() == ".csv" else _jsonl_rows
    for line, row in rows(_text(path, data)):
        try:
            if isinstance(row, RowFault):
                raise row
            question = read_row(row, line)
            if (earlier := lines.setdefault(question.id, line)) != line:
                raise RowFault(f"id: {question.id!r} is that of line {earlier} too")
            questions.append(question)
        except RowFault as fault:
            faults.append(Fault(line, str(fault)))
    if faults:
        raise DatasetError(path, tuple(faults[:MAX_FAULTS]), max(0, len(faults) - MAX_FAULTS))
    if not questions:
        raise DatasetError(path, (Fault(0, "has no rows"),))
    return Dataset(tuple(questions), hashlib.sha256(data).hexdigest())


def _text(path: Path, data: bytes) -> str:
    try:
        # Spreadsheets write a mark of the byte order in front.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DatasetError(path, (Fault(line, "is not UTF-8"),)) from None


def _jsonl_rows(text: str) -> Iterator[tuple[int, jsontext.Value | RowFault]]:
    # Not splitlines, which also cuts at separators that JSON text may hold.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row: jsontext.Value | RowFault = jsontext.parse(line)
        except jsontext.JsonError as error:
            # The value's own line is always its first: the file's line is told instead.
            row = RowFault(str(error).replace("(line 1, column", "(column"))
        if number == 1 and line.lstrip().startswith("["):
            # All that follows is at fault for the same reason.
            yield number, RowFault("begins an array; the file has an object a line instead")
            return
        yield number, row


def _csv_rows(text: str) -> Iterator[tuple[int, jsontext.Value | RowFault]]:
    header: list[str] | None = None
    for line, cells in spreadsheet.records(text):
        if isinstance(cells, RowFault):
            yield line, cells
        elif header is None:
            header = [name.strip().lower() for name in cells]
            try:
                spreadsheet.check_header(header)
            except RowFault as fault:
                # Without a header no record says anything.
                yield line, fault
                return
        else:
            try:
                row: jsontext.Value | RowFault = spreadsheet.row(header, cells)
            except RowFault as fault:
                row = fault
            yield line, row
