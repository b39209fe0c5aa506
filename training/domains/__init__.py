"""The domains: a file of phrases each, read when it is asked for."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from training.domain import Domain
from training.reading import read_domain

_FOLDER = Path(__file__).parent


def names() -> tuple[str, ...]:
    """All domains, in the order of their names."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.txt")))


@cache
def load(name: str) -> Domain:
    """A domain by its name."""
    return read_domain(_FOLDER / f"{name}.txt")
