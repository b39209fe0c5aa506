"""The calibration file on disk: written at once, and refused with a reason where it does not fit."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dicast_server.calibration.document import FORMAT, VERSION, Calibration, Key
from dicast_server.calibration.kinds import BANDS


class CalibrationFileError(Exception):
    """A calibration file cannot be used or written; the message says why."""


class MissingFile(CalibrationFileError):
    """There is no such file, or it cannot be read."""


class CorruptFile(CalibrationFileError):
    """The file is cut off or is no calibration."""


class NewerFile(CalibrationFileError):
    """A later version of dicast wrote the file."""


class OtherSystem(CalibrationFileError):
    """The file was made for another model, template or readout; `differences` names what differs."""

    def __init__(self, path: Path, differences: Sequence[str]) -> None:
        self.differences = tuple(differences)
        super().__init__(f"{path} was made for something else: {'; '.join(differences)}")


def write(calibration: Calibration, path: Path) -> None:
    """Write a file at once: what was there stays whole until the new one is.

    Raises:
        CalibrationFileError: the folder is missing or cannot be written to.
    """
    # Beside the file, because a rename is atomic within a file system alone.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    text = json.dumps(calibration.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise CalibrationFileError(f"{path} cannot be written: {error.strerror}") from error


def read(path: Path, served: Key | None = None) -> Calibration:
    """Read a file, and check that it was made for what is served where that is given.

    Raises:
        MissingFile: it is not there or cannot be read.
        CorruptFile: it is cut off, or no calibration.
        NewerFile: a later version of dicast wrote it.
        OtherSystem: it was made for another model, template or readout.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise MissingFile(f"{path} cannot be read: {error.strerror}") from error
    try:
        tree: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptFile(f"{path} is cut off or no calibration file: {error}") from None
    if not isinstance(tree, dict) or tree.get("format") != FORMAT:
        raise CorruptFile(f"{path} is no calibration file of dicast")
    version = tree.get("version")
    if isinstance(version, int) and version > VERSION:
        raise NewerFile(
            f"{path} has version {version}, and this dicast reads {VERSION}: make it again or update"
        )
    try:
        calibration = Calibration.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise CorruptFile(f"{path} is not a whole calibration file: {where}: {first['msg']}") from None
    for entry in calibration.table:
        if entry.band is not None and entry.band not in BANDS:
            raise CorruptFile(f"{path} has a band of {entry.band.low} to {entry.band.high} options")
    if served is not None and (differences := calibration.key.differences(served)):
        raise OtherSystem(path, differences)
    return calibration
