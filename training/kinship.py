"""Which topics of other domains are wrong for a text, and never half right."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from training.domain import Topic, Topics


def strangers(topic: Topic, group: Topics, pool: Sequence[Topics]) -> list[Topic]:
    """The topics of other groups that no text about this topic can be about."""
    lines, words = _lines(topic.key), _words(topic.names)
    return [
        each
        for other in pool
        if other is not group and other.lends
        for each in other.topics
        if not lines & _lines(each.key) and not words & _words(each.names)
    ]


@cache
def _words(names: tuple[str, ...]) -> frozenset[str]:
    """The words of some names, without the small ones."""
    return frozenset(
        word for name in names for word in name.lower().replace(",", "").split() if len(word) > 3
    )


@cache
def _patterns() -> tuple[tuple[str, ...], ...]:
    lines = (Path(__file__).parent / "kin.txt").read_text("utf-8").splitlines()
    return tuple(
        tuple(part.strip() for part in line.split(","))
        for line in lines
        if line.strip() and not line.startswith("#")
    )


@cache
def _lines(key: str) -> frozenset[int]:
    """The numbers of the lines that a topic stands in."""
    return frozenset(
        number
        for number, patterns in enumerate(_patterns())
        if any(fnmatchcase(key, pattern) for pattern in patterns)
    )
