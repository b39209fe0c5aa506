"""Which topics of other domains are wrong for a text, and never half right."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from training.domain import Topic, Topics


def strangers(topic: Topic, group: Topics, pool: Sequence[Topics]) -> list[Topic]:
    """The topics of other groups that no text about this topic can be about."""
    mine = _lines(topic.key)
    return [
        each
        for other in pool
        if other is not group and other.lends
        for each in other.topics
        if not mine & _lines(each.key)
    ]


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
