"""Where calibration files live that nobody gave another place, and which of them is for a served model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dicast_server import caches
from dicast_server.calibration import file
from dicast_server.calibration.document import Calibration, Key
from dicast_server.calibration.file import CalibrationFileError


def folder() -> Path:
    """The folder, which may not exist yet: `calibrations` in the user's data folder or in DICAST_DATA."""
    return caches.data_location() / "calibrations"


def path_of(key: Key) -> Path:
    """The file of a key."""
    return path_in(folder(), key)


def path_in(folder: Path, key: Key) -> Path:
    """The file of a key in a folder."""
    return folder / f"{key.digest}.json"


def save(calibration: Calibration, folder: Path) -> Path:
    """Write a calibration under its name, in a folder that is made where it is missing; returns the file.

    Raises:
        CalibrationFileError: the folder cannot be made or written to.
    """
    path = path_in(folder, calibration.key)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CalibrationFileError(f"{folder} cannot be made: {error.strerror}") from error
    file.write(calibration, path)
    return path


def newest(
    folder: Path, fits: Callable[[Path, Calibration], bool], warn: Callable[[str], None]
) -> tuple[Path, Calibration] | None:
    """The latest calibration of a folder that fits what is served.

    `warn` hears of files that cannot be read; those of other models are nobody's business.
    """
    found: list[tuple[Path, Calibration]] = []
    for path in sorted(folder.glob("*.json")):
        try:
            calibration = file.read(path)
        except CalibrationFileError as error:
            warn(f"{error}; it is not applied")
            continue
        if fits(path, calibration):
            found.append((path, calibration))
    return max(found, key=lambda each: each[1].date, default=None)
