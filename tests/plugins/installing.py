"""Installs a package for a test: what an installer writes about it, in a folder of its own."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent
"""The project with the example, next to its package."""


def write_metadata(folder: Path, name: str, entries: Mapping[str, Mapping[str, str]]) -> None:
    """The metadata of a package with these entry points, by group."""
    info = folder / f"{name.replace('-', '_')}-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    lines = [
        line
        for group, values in entries.items()
        for line in (f"[{group}]", *(f"{entry} = {value}" for entry, value in values.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def search_path(folder: Path) -> list[str]:
    """Install the example's metadata into a folder; what must be on the path for it to be found."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    write_metadata(folder, project["name"], project["entry-points"])
    return [str(folder), str(EXAMPLE)]


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """The example is installed in this process."""
    with pytest.MonkeyPatch.context() as patch:
        for entry in search_path(folder):
            patch.syspath_prepend(entry)
        yield
