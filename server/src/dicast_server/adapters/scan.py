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

_FILES = (file.DOCUMENT, file.WEIGHTS, file.HEAD, file.CONFIG, file.CALIBRATION)
_OLD = re.compile(rf"\.({NAME_PATTERN})\.old")


@dataclass(frozen=True, slots=True)
class Found:
    """The adapters of a folder by name, and what lies there besides.

    `misnamed` are folders that hold an adapter and cannot name one, `unreadable` those that cannot be looked
    into, each with the reason.
    """

    adapters: Mapping[str, Signature]
    misnamed: tuple[str, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()


def look(folder: Path, known: Mapping[str, Signature]) -> Found:
    """What is in a folder; a folder that is not there has nothing in it.

    A subfolder without its document is half written, and does not count. One of `known` that is being
    replaced at this very moment, or cannot be looked into, stays as it was.

    Raises:
        OSError: the folder cannot be read.
    """
    try:
        paths = sorted(folder.iterdir())
    except FileNotFoundError:
        return Found({})
    found: dict[str, Signature] = {}
    misnamed: list[str] = []
    unreadable: list[tuple[str, str]] = []
    for path in paths:
        if (replaced := _OLD.fullmatch(path.name)) is not None:
            # The old one was moved aside; where the new one is there already it comes later in this list.
            if replaced[1] in known:
                found[replaced[1]] = known[replaced[1]]
        elif path.name.startswith("."):
            continue
        else:
            try:
                signature = _signature(path)
            except OSError as error:
                # One of them must not hide the others.
                unreadable.append((path.name, error.strerror or str(error)))
                signature = known.get(path.name, ())
            if not signature:
                if path.name in known and file.is_being_replaced(path):
                    found[path.name] = known[path.name]
            elif is_name(path.name):
                found[path.name] = signature
            else:
                misnamed.append(path.name)
    return Found(found, tuple(misnamed), tuple(unreadable))


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
