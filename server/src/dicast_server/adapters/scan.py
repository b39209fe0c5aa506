"""Which adapters lie in a folder, and which of them have changed since it was last looked at."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from dicast_server.adapters import file
from dicast_server.adapters.document import NAME_PATTERN, is_name

Signature: TypeAlias = tuple[tuple[str, int, int, int], ...]
"""Name, time of change, size and inode of each file of an adapter: another signature is another adapter."""

_FILES = (file.DOCUMENT, file.WEIGHTS, file.CONFIG, file.CALIBRATION)
_OLD = re.compile(rf"\.({NAME_PATTERN})\.old")


@dataclass(frozen=True, slots=True)
class Found:
    """The adapters of a folder by name, and the names of folders that hold one but cannot name one."""

    adapters: Mapping[str, Signature]
    misnamed: tuple[str, ...] = ()


def look(folder: Path, known: Mapping[str, Signature]) -> Found:
    """What is in a folder; a folder that is not there has nothing in it.

    A subfolder without its document is half written, and does not count. One of `known` that is being
    replaced at this very moment stays as it was.

    Raises:
        OSError: the folder cannot be read.
    """
    try:
        paths = sorted(folder.iterdir())
    except FileNotFoundError:
        return Found({})
    found: dict[str, Signature] = {}
    misnamed: list[str] = []
    for path in paths:
        if (replaced := _OLD.fullmatch(path.name)) is not None:
            # The old one was moved aside; where the new one is there already it comes later in this list.
            if replaced[1] in known:
                found[replaced[1]] = known[replaced[1]]
        elif path.name.startswith("."):
            continue
        elif signature := _signature(path):
            if is_name(path.name):
                found[path.name] = signature
            else:
                misnamed.append(path.name)
        elif path.name in known and file.is_being_replaced(path):
            found[path.name] = known[path.name]
    return Found(found, tuple(misnamed))


def _signature(folder: Path) -> Signature:
    """The signature of an adapter; empty where there is none."""
    states = []
    for name in _FILES:
        try:
            state = (folder / name).stat()
        except (FileNotFoundError, NotADirectoryError):
            if name == file.DOCUMENT:
                return ()
            continue
        states.append((name, state.st_mtime_ns, state.st_size, state.st_ino))
    return tuple(states)
