"""The passages: a file of them a field, read when it is asked for."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from training.passage import Field, read_field

_FOLDER = Path(__file__).parent


def names() -> tuple[str, ...]:
    """All fields, in the order of their names."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.txt")))


@cache
def load(name: str) -> Field:
    """A field by its name."""
    return read_field(_FOLDER / f"{name}.txt")
