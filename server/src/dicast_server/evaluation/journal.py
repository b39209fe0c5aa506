"""Answers kept as they come, so that an interrupted run goes on where it was."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from dicast import jsontext
from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.evaluation.questions import as_text
from dicast_server.evaluation.source import Said
from dicast_server.evaluation.system import digest_of

_FORMAT = "dicast-answers"
_BEGINNING = f'{{"format": "{_FORMAT}"'


class JournalError(Exception):
    """The answers cannot be kept; the message names the file."""


class Journal:
    """A file of answers of one system: a first line that names it by its digest, then an answer a line.

    An answer is found again by its row's id and the hash of all that was asked, so that a row that was
    reworded is asked anew.

    Attributes:
        stale: whether the file held another system's answers, which are dropped.
    """

    def __init__(self, path: Path, digest: str) -> None:
        """Open a file, or begin it.

        Raises:
            JournalError: it cannot be written.
        """
        self.path = path
        self.stale = False
        self._kept: dict[tuple[str, str], Said] = {}
        header = json.dumps({"format": _FORMAT, "version": 1, "system": digest}) + "\n"
        try:
            text = path.read_text("utf-8") if path.exists() else ""
            # What is no journal is somebody's, and is not written over.
            if text and not (text.startswith(_BEGINNING) or _BEGINNING.startswith(text)):
                raise JournalError(f"{path} is no file of answers; remove it")
            # A line that was cut off in the middle of a write is no line.
            whole = text[: text.rfind("\n") + 1]
            self.stale = bool(whole) and not whole.startswith(header)
            if self.stale or not whole:
                whole = header
            self._kept = _read(path, whole.split("\n")[1:-1])
            path.write_text(whole, "utf-8")
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise JournalError(f"{path} cannot be written: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise JournalError(f"{path} is no file of answers; remove it") from error

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What could not be written was told already, and closing would try again.
        with contextlib.suppress(OSError):
            self._file.close()

    @property
    def kept(self) -> int:
        """How many answers it had when it was opened."""
        return len(self._kept)

    def find(self, question: LabelledQuestion) -> Said | None:
        """The answer to a question, if it was given before."""
        return self._kept.get((question.id, question_hash(question)))

    def keep(self, answers: Iterable[tuple[LabelledQuestion, Said]]) -> None:
        """Add answers; they are on the disk when this returns.

        Raises:
            JournalError: they are not, as where the disk is full.
        """
        lines = []
        for question, said in answers:
            line = {
                "id": question.id,
                "question": question_hash(question),
                "probabilities": said.probabilities,
                "scores": said.scores,
                "unfit": said.unfit,
            }
            lines.append(json.dumps(line, ensure_ascii=False) + "\n")
        try:
            self._file.write("".join(lines))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise JournalError(f"{self.path} cannot be written: {error.strerror}") from error

    def remove(self) -> None:
        """Take the file away, once what it was kept for is written."""
        self._file.close()
        self.path.unlink(missing_ok=True)


def question_hash(question: LabelledQuestion) -> str:
    """Of state and question, with the order of the options; the label is no part of what is asked."""
    asked = question.question
    # Numbers of JSON print as they were written (`jsontext.Number`), so that repr tells 1 from 1.0.
    worded = repr((asked.instructions, asked.type))
    return digest_of([as_text(question.state), isinstance(question.state, str), worded])[:32]


def _read(path: Path, lines: list[str]) -> dict[tuple[str, str], Said]:
    kept: dict[tuple[str, str], Said] = {}
    for number, line in enumerate(lines, start=2):
        try:
            entry = jsontext.plain(jsontext.parse(line))
            scores = entry["scores"]
            kept[str(entry["id"]), str(entry["question"])] = Said(
                tuple(map(float, entry["probabilities"])),
                None if scores is None else tuple(tuple(map(float, each)) for each in scores),
                str(entry["unfit"]),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise JournalError(f"{path}, line {number}, is no answer; remove the line or the file") from error
    return kept
