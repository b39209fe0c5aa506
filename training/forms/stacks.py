"""Several short texts in one state: which one is about something, how many are, what one of them says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from training.case import Asked
from training.domain import Domain, Topic, Topics
from training.drawing import Draw
from training.options import NAMES, Entry, Styles, choice
from training.people import PEOPLE
from training.wording import capital, listed

_WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight")


@dataclass(frozen=True, slots=True)
class Stack:
    """Texts by the name of who wrote them or by their number, each about a topic of the group."""

    group: Topics
    state: Any
    items: tuple[tuple[str, Topic], ...]


def stack(draw: Draw, domain: Domain) -> Stack:
    """Three to seven texts, some of them about the same."""
    group = draw.one(domain.topics)
    count = draw.weighted(((2, 0.15), (3, 0.35), (4, 0.25), (5, 0.15), (7, 0.1)))
    names = draw.some(PEOPLE, count)
    if draw.chance(0.4):
        names = [f"{group.item} {number}" for number in draw.some(range(1, 30), count)]
    topics = draw.some(group.topics, count)
    while len(topics) < count or draw.chance(0.3):
        topics = [*topics[: count - 1], draw.one(topics)]
    used: set[str] = set()
    items: list[tuple[str, Topic]] = []
    lines: list[tuple[str, str]] = []
    for name, topic in zip(names, draw.shuffled(topics), strict=True):
        free = [line for line in topic.lines if line not in used] or list(topic.lines)
        line = draw.one(free)
        used.add(line)
        items.append((name, topic))
        lines.append((name, line))
    state: Any = "\n".join(f"{capital(name)}: {line}" for name, line in lines)
    if draw.chance(0.25):
        state = [{"id": name, "text": line} for name, line in lines]
    return Stack(group, state, tuple(items))


def which_text(draw: Draw, given: Stack) -> Asked | None:
    """The only text about a topic."""
    name, topic = draw.one(given.items)
    if sum(each is topic for _, each in given.items) > 1:
        return None
    asked = draw.one(
        (
            "Which one is about {a}?",
            "Find the {i} about {a}.",
            "Which of them fits this: {m}?",
            "Of which of them is this true: {c}?",
            "Where is it about {a}?",
        )
    ).format(a=topic.about, i=given.group.item, m=topic.meaning, c=topic.clause)
    names = [each for each, _ in given.items]
    entries = [Entry(each, None, fixed=True) for each in names]
    return choice(draw, "which text", asked, entries, names.index(name), styles=NAMES)


def one_text(draw: Draw, given: Stack) -> Asked | None:
    """What one of the texts is about; the wrong options are mostly what the others are about."""
    name, topic = draw.one(given.items)
    others = list({id(each): each for _, each in given.items if each is not topic}.values())
    if not others or draw.chance(0.4):
        others += draw.some(
            [each for each in given.group.topics if each is not topic and each not in others], 2
        )
    entries = [Entry(draw.one(each.names), each.meaning) for each in (topic, *others)]
    asked = draw.one(("What is {n} about?", "Topic of {n}?", "What does {n} deal with?", "Classify {n}."))
    if name in PEOPLE:
        asked = draw.one(
            ("What does {n} write about?", "{n}'s topic?", "Sort what {n} wrote.", "What is {n}'s matter?")
        )
    styles: Styles = (("names", 0.35), ("both", 0.3), ("codes", 0.35))
    return choice(draw, "one text", asked.format(n=name), entries, 0, styles=styles)


def of_one(draw: Draw, given: Stack) -> Asked | None:
    """Whether one of the texts is about a topic; if not, another one is."""
    wanted = draw.chance(0.5)
    name, topic = draw.one(given.items)
    if not wanted:
        others = [each for _, each in given.items if each is not topic]
        if not others:
            return None
        topic = draw.one(others)
    asked = draw.one(
        (
            "{N} is about {a}.",
            "Is {n} about {a}?",
            "Does this hold for {n}: {c}?",
            "Is {n} the one about {a}?",
        )
    )
    if name in PEOPLE:
        asked = draw.one(("{N} writes about {a}.", "Does {n} write about {a}?", "Does {n} bring up {a}?"))
    asked = asked.format(n=name, N=capital(name), a=topic.about, c=topic.clause)
    return Asked("of one text", "noul", asked, None, wanted)


def any_text(draw: Draw, given: Stack) -> Asked | None:
    """Whether any of the texts is about a topic."""
    wanted = draw.chance(0.5)
    present = [each for _, each in given.items]
    absent = [each for each in given.group.topics if each not in present]
    if not wanted and not absent:
        return None
    topic = draw.one(present if wanted else absent)
    asked = draw.one(
        (
            "At least one of them is about {a}.",
            "Is any of them about {a}?",
            "Does any {i} fit this: {m}?",
            "Nobody brings up {a}.",
            "Is there one about {a}?",
        )
    )
    right = wanted != asked.startswith("Nobody")
    asked = asked.format(a=topic.about, i=given.group.item, m=topic.meaning)
    return Asked("any text", "noul", asked, None, right)


def how_many(draw: Draw, given: Stack) -> Asked | None:
    """How many of the texts are about one of some topics."""
    top = draw.number(2, min(5, len(given.items)))
    wanted = draw.number(0, top)
    for _ in range(60):
        topics = draw.some(given.group.topics, draw.number(1, min(4, len(given.group.topics) - 1)))
        number = sum(each in topics for _, each in given.items)
        if number == wanted:
            break
    else:
        return None
    abouts = listed([each.about for each in topics], "or")
    asked = draw.one(
        ("How many of them are about {a}?", "Count those about {a}.", "How often is it about {a}?")
    ).format(a=abouts)
    return Asked("how many texts", "score", asked, list(_WORDS[: top + 1]), number)
