"""What a text is about or asks for: chosen among topics, stated, routed by a rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from training.case import Asked
from training.domain import Domain, Topic, Topics
from training.drawing import Draw
from training.kinship import strangers
from training.options import NAMES, Entry, Styles, choice
from training.people import PEOPLE
from training.wording import NOTHING, NOTHING_MEANS, capital, codes, joined, listed, predicate

_SETTLED_SAID = (
    "This is not about {a}.",
    "I wrote to you about {a} last month; that is settled.",
    "My neighbour has a question about {a}, but that is another matter.",
    "You need not do anything about {a}, thank you.",
    "Last time we spoke about {a}, which is done with.",
    "By the way, I have no trouble with {a} at all.",
    "At first I meant to write about {a}, but forget that.",
    "Somebody put me down for {a}; that was a mix-up.",
    "If this were about {a}, I would have phoned.",
)
_SETTLED_WRITTEN = (
    "An older {i}, filed elsewhere, is about {a}.",
    "(The neighbouring {i} is about {a}.)",
    "Not to be confused with the {i} about {a}.",
    "The {i} before this one was about {a}.",
    "There is another {i} about {a}, but this is not it.",
)


@dataclass(frozen=True, slots=True)
class Text:
    """A state that is about one topic; `passing` is one that it only names."""

    group: Topics
    state: Any
    topic: Topic
    passing: Topic | None


def text(draw: Draw, domain: Domain) -> Text:
    """A text about one of the domain's topics."""
    group = draw.one(domain.topics)
    topic = draw.one(group.topics)
    passing = draw.one([each for each in group.topics if each is not topic]) if draw.chance(0.45) else None
    return Text(group, _state(draw, domain, group, topic, passing), topic, passing)


def _state(draw: Draw, domain: Domain, group: Topics, topic: Topic, passing: Topic | None) -> Any:
    lines = draw.some(topic.lines, 1 if draw.chance(0.7) else 2)
    asides = draw.some(domain.asides, draw.weighted(((0, 0.52), (1, 0.2), (3, 0.14), (8, 0.09), (34, 0.04))))
    named = ""
    if passing is not None:
        named = draw.one(_SETTLED_SAID if group.spoken else _SETTLED_WRITTEN)
        named = named.format(a=passing.about, i=group.item)
        # In a quoted earlier text its own words speak for the other topic, not its name.
        if draw.chance(0.35):
            line = draw.one(passing.lines)
            lead = "Answered already, from last month" if group.spoken else f"From another {group.item}"
            named = f'{lead}: "{line}"'
    parts = draw.shuffled([part for part in [*lines, *asides, named] if part])
    body = joined(parts)
    match draw.number(0, 7):
        case 0:
            return {
                group.item.replace(" ", "_"): body,
                "received": f"2026-0{draw.number(1, 9)}-1{draw.number(0, 9)}",
            }
        case 1:
            return {"from": draw.one(PEOPLE), "text": body, "read": draw.chance(0.5)}
        case 2 if group.spoken:
            desk = draw.one(("Desk", "Agent", "Clerk", draw.one(PEOPLE)))
            hello = draw.one(("Good morning, what can I do for you?", "Hello!", "Go ahead, please.", "Yes?"))
            bye = draw.one(("One moment, please.", "I see.", "Let me look.", "Thank you for telling me."))
            talk = "\n".join(f"Caller: {part}\n{desk}: {bye}" for part in parts[:3])
            rest = " ".join(parts[3:])
            return f"{desk}: {hello}\n{talk}" + (f"\nCaller: {rest}" if rest else "")
        case 3 if group.spoken:
            return f"Hello,\n\n{body}\n\n{draw.one(('Regards', 'Best wishes', 'Thanks'))}\n{draw.one(PEOPLE)}"
        case 4 if not group.spoken:
            return f"{capital(group.item)} {draw.number(2, 98)}\n{body}"
        case _:
            return body


def _entry(draw: Draw, topic: Topic) -> Entry:
    meaning = draw.one((topic.meaning, topic.meaning, topic.clause))
    return Entry(draw.one(topic.names), meaning)


def _ask(draw: Draw, group: Topics) -> str | None:
    general = (
        f"What is this {group.item} about?",
        "Choose the option that fits.",
        f"Classify the {group.item}.",
        f"Which label suits this {group.item} best?",
        "Topic?",
        f"Please sort this {group.item}.",
    )
    return draw.one((*group.asks, *group.asks, *general)) if draw.chance(0.97) else None


def which_topic(draw: Draw, given: Text, pool: Sequence[Topics]) -> Asked | None:
    """The topic among others of its group, with or without a way out."""
    others = [each for each in given.group.topics if each is not given.topic]
    others = draw.some(others, draw.number(1, len(others)))
    if given.passing is not None and given.passing not in others and draw.chance(0.8):
        others[-1] = given.passing
    topics = [given.topic, *others]
    right = 0
    nothing: list[Entry] = []
    if draw.chance(0.25):
        nothing = [Entry(draw.one(NOTHING), draw.one(NOTHING_MEANS), fixed=True)]
        if len(topics) > 2 and draw.chance(1 / len(topics)):
            topics = topics[1:]
            if draw.chance(0.3):
                topics = draw.some(strangers(given.topic, given.group, pool), len(topics)) or topics
            right = len(topics)
    entries = [*(_entry(draw, each) for each in topics), *nothing]
    return choice(draw, "which topic", _ask(draw, given.group), entries, right)


def across(draw: Draw, given: Text, pool: Sequence[Topics]) -> Asked | None:
    """The topic among those of other fields, up to twenty of them."""
    others = strangers(given.topic, given.group, pool)
    count = draw.weighted(((2, 0.1), (4, 0.18), (6, 0.18), (10, 0.18), (14, 0.18), (19, 0.18)))
    near = [each for each in given.group.topics if each is not given.topic]
    others = [*draw.some(near, min(2, count - 1)), *draw.some(others, count)][:count]
    entries = [_entry(draw, each) for each in (given.topic, *others)]
    general = draw.one(
        (
            "Which of these fits the text?",
            "What does the text deal with?",
            "Which tool, desk or label is meant?",
            "Pick the best match.",
            "Who or what should take this?",
            "Choose one.",
        )
    )
    return choice(draw, "across", general, entries, 0, styles=(("both", 0.5), ("codes", 0.3), ("names", 0.2)))


def is_about(draw: Draw, given: Text, pool: Sequence[Topics]) -> Asked | None:
    """Whether the text is about a topic; a false one may be named in passing."""
    wanted = draw.chance(0.5)
    topic = given.topic
    if not wanted:
        others = [each for each in given.group.topics if each is not topic]
        if draw.chance(0.1):
            # From another field altogether.
            others = strangers(topic, given.group, pool) or others
        topic = given.passing if given.passing is not None and draw.chance(0.6) else draw.one(others)
    style = draw.number(0, 3)
    if style == 0:
        criteria = {"true": topic.meaning, "false": draw.one(("anything else", "it is about another matter"))}
        label = draw.one(("{C}?", "Label: {c}", f"Is this {given.group.item} of that kind?", "{c}"))
        name = draw.one(topic.names)
        asked = label.format(c=name, C=capital(name))
        return Asked("is about", "noul", asked, criteria, wanted)
    if style == 1:
        asked = draw.one(
            (
                "Is the {i} about {a}?",
                "The {i} is about {a}.",
                "Does this {i} deal with {a}?",
                "Subject: {a}. Correct?",
                "Main matter: {a}.",
                "Does this belong to those about {a}?",
            )
        ).format(i=given.group.item, a=topic.about)
        return Asked("is about", "noul", asked, None, wanted)
    if style == 2:
        return Asked("is about", "noul", _matches(draw, topic), None, wanted)
    return Asked("is about", "noul", predicate(draw, topic.clause), None, wanted)


def _matches(draw: Draw, topic: Topic) -> str:
    return draw.one(
        (
            'Does this description fit: "{m}"?',
            "Summary: {m}. Is that right?",
            "It fits the description: {m}.",
            'Would you file this under "{m}"?',
        )
    ).format(m=topic.meaning)


def one_of(draw: Draw, given: Text, pool: Sequence[Topics]) -> Asked | None:
    """Whether the topic is one of several that a rule names."""
    wanted = draw.chance(0.5)
    others = draw.shuffled([each for each in given.group.topics if each is not given.topic])
    count = draw.number(2, 3)
    # The rule names the topic, or all but it.
    named = [given.topic, *others[: count - 1]] if wanted else others[:count]
    abouts = listed([each.about for each in draw.shuffled(named)], "or")
    turned = draw.chance(0.25)
    asked = draw.one(
        (
            "Leave out what is about {a}. Does this {i} stay in?",
            "We do not handle {a}. Do we handle this?",
        )
        if turned
        else (
            "Flag a {i} about {a}. Is this one to be flagged?",
            "Is this about {a}?",
            "We handle {a}. Is this for us?",
            "Forward it only if it is about {a}. Should it be forwarded?",
        )
    ).format(a=abouts, i=given.group.item)
    return Asked("one of", "noul", asked, None, wanted != turned)


def routed(draw: Draw, given: Text, pool: Sequence[Topics]) -> Asked | None:
    """Where a rule in the instructions sends the text; the places' names say nothing."""
    others = draw.some([each for each in given.group.topics if each is not given.topic], draw.number(1, 4))
    topics = [given.topic, *others]
    places = codes(draw, len(topics))
    rules = draw.shuffled([f"{topic.about}: {place}" for topic, place in zip(topics, places, strict=True)])
    asked = draw.one(
        (
            "Send it on by this list. {r}.",
            "Where does it go? {r}.",
            "Desks: {r}. Which one gets this {i}?",
            "Directory - {r}. Choose.",
        )
    ).format(r="; ".join(rules), i=given.group.item)
    entries = [Entry(place, None, fixed=True) for place in places]
    return choice(draw, "routed", asked, entries, 0, styles=NAMES)


def in_passing(draw: Draw, given: Text, pool: Sequence[Topics]) -> Asked | None:
    """Which topic the text names without being about it."""
    if given.passing is None:
        return None
    rest = [each for each in given.group.topics if each is not given.topic and each is not given.passing]
    topics = [given.passing, given.topic, *draw.some(rest, draw.number(0, 3))]
    asked = draw.one(
        (
            "Which matter is only mentioned in passing or done with?",
            f"What is named although the {given.group.item} is not about it?",
            "Which of these comes up but is not the subject?",
        )
    )
    styles: Styles = (("names", 0.4), ("both", 0.6))
    return choice(draw, "in passing", asked, [_entry(draw, each) for each in topics], 0, styles=styles)


def summed_up(draw: Draw, given: Text, pool: Sequence[Topics]) -> Asked | None:
    """Which one-sentence summary is right."""
    others = draw.some([each for each in given.group.topics if each is not given.topic], draw.number(1, 5))
    entries = [Entry(each.clause, each.clause) for each in (given.topic, *others)]
    asked = draw.one(
        (
            "Which summary is right?",
            "What is the case?",
            "Which sentence sums it up?",
            "Which statement is true?",
        )
    )
    return choice(draw, "summed up", asked, entries, 0, styles=(("names", 0.4), ("codes", 0.6)))


def prominence(draw: Draw, given: Text, pool: Sequence[Topics]) -> Asked | None:
    """How much of the text is about a topic: nothing, a remark, or all that matters."""
    place = draw.number(0, 2)
    used = (given.topic, given.passing)
    if place == 1 and given.passing is None:
        place = draw.one((0, 2))
    unused = [each for each in given.group.topics if each not in used]
    topic = (draw.one(unused), given.passing, given.topic)[place]
    assert topic is not None
    asked = draw.one(
        (
            "How far is this {i} about {a}?",
            "How much of the {i} is about {a}?",
            "The main matter, a side remark, or neither: {a}?",
            "How well does this fit the {i}: {m}?",
        )
    ).format(i=given.group.item, a=topic.about, m=topic.meaning)
    levels = [
        draw.one(("no trace of it", "not mentioned", "not at all")),
        draw.one(("named in passing", "a side remark", "mentioned, but not the point")),
        draw.one(("the main matter", "what it is all about", "the very subject")),
    ]
    if given.passing is None or draw.chance(0.2):
        # Two levels do where nothing is named in passing.
        if place == 1:
            return None
        del levels[1]
        place = min(place, 1)
    return Asked("prominence", "score", asked, levels, place)
