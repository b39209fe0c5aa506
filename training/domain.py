"""What a domain is made of: facts of a record, actions of its history, topics of messages, scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from training.facts import Fact


@dataclass(frozen=True, slots=True)
class Record:
    """A thing with facts. `openings` introduce it; `outcomes` are what is done with it."""

    noun: str
    ids: str
    openings: tuple[str, ...]
    facts: tuple[Fact, ...]
    outcomes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Actions:
    """What people do to a thing, by a short name: "approved" to "approved the claim"."""

    noun: str
    done: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Topic:
    """What a text can be about, said in four ways, and texts that are about it.

    `about` fits after "about", `clause` is a sentence without capital and full stop, `meaning` is a
    description that does not repeat the names.
    """

    key: str
    names: tuple[str, ...]
    about: str
    clause: str
    meaning: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of a kind of text: an e-mail, a clause of a contract, a line of a log.

    `spoken` texts speak of their author's own affairs. `lends` is false where the topics are so general that
    they may be true of any domain's texts.
    """

    item: str
    asks: tuple[str, ...]
    spoken: bool
    lends: bool
    topics: tuple[Topic, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """A level of a scale: descriptions, and texts that are there."""

    meanings: tuple[str, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scale:
    """Levels from low to high. `turned` asks from high to low: how calm instead of how urgent."""

    item: str
    asks: tuple[str, ...]
    turned: tuple[str, ...]
    levels: tuple[Level, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """A field of life or work."""

    name: str
    record: Record | None
    actions: Actions | None
    topics: tuple[Topics, ...]
    scales: tuple[Scale, ...]
    asides: tuple[str, ...]
    """Sentences that no question is about."""
