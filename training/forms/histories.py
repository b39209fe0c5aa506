"""What happened in which order: who did it, what came first, what was undone, what never happened."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

from training.case import Asked
from training.domain import Actions, Domain
from training.drawing import Draw
from training.options import NAMES, Entry, Styles, choice
from training.people import PEOPLE, moments
from training.wording import predicate

_WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven")


@dataclass(frozen=True, slots=True)
class Event:
    """Somebody did something; `struck` where it turned out not to have happened."""

    time: str
    person: str
    action: str
    struck: bool


@dataclass(frozen=True, slots=True)
class History:
    """A state with events in the order of their times."""

    actions: Actions
    state: Any
    events: tuple[Event, ...]

    @property
    def real(self) -> tuple[Event, ...]:
        """What did happen."""
        return tuple(each for each in self.events if not each.struck)

    @property
    def never(self) -> list[str]:
        """Actions that did not happen."""
        done = {each.action for each in self.real}
        return [each for each in self.actions.done if each not in done]


def history(draw: Draw, domain: Domain) -> History:
    """Three to six events by a few people, none twice."""
    actions = domain.actions
    assert actions is not None
    done = draw.some(list(actions.done), draw.number(3, min(6, len(actions.done) - 1)))
    staff = draw.some(PEOPLE, draw.number(2, 4))
    # The first two people each do something, so that "who" is a question.
    people = [*staff[:2], *(draw.one(staff) for _ in done[2:])]
    people = draw.shuffled(people)
    struck = draw.number(0, len(done) - 1) if draw.chance(0.35) else None
    events = tuple(
        Event(time, person, action, at == struck)
        for at, (time, person, action) in enumerate(zip(moments(draw, len(done)), people, done, strict=True))
    )
    return History(actions, _state(draw, domain, actions, events, staff), events)


def _state(draw: Draw, domain: Domain, actions: Actions, events: tuple[Event, ...], staff: list[str]) -> Any:
    shuffled = draw.chance(0.25)
    order = draw.shuffled(events) if shuffled else list(events)
    clerk = draw.one([each for each in PEOPLE if each not in staff])
    match draw.number(0, 4):
        case 0:
            return [
                {"time": each.time, "by": each.person, "action": actions.done[each.action]}
                | ({"valid": False} if each.struck else {})
                for each in order
            ]
        case 1:
            mark = draw.one((" ", " - ", " | ", ": "))
            lines = [f"{each.time}{mark}{each.person} {actions.done[each.action]}" for each in order]
            lines += [f"Correction: the entry of {each.time} is void." for each in events if each.struck]
            return "\n".join(lines)
        case 2:
            lines = [f"{each.person}: {each.time}, I {actions.done[each.action]}." for each in order]
            lines += [
                f"{each.person}: What I said about {each.time} was wrong, I did not do that."
                for each in events
                if each.struck
            ]
            return "\n".join(lines)
        case _:
            start = draw.one(
                (
                    f"This is what happened with the {actions.noun}.",
                    f"Notes on the {actions.noun}, by {clerk}.",
                    f"History of the {actions.noun}.",
                    "",
                )
            )
            how = draw.one(
                (
                    "{t}: {p} {d}.",
                    "At {t}, {p} {d}." if ":" in events[0].time else "On {t}, {p} {d}.",
                    "{p} {d} ({t}).",
                )
            )
            lines = [how.format(t=e.time, p=e.person, d=actions.done[e.action]) for e in order]
            lines += [
                draw.one(
                    (
                        "The entry for {t} is a mistake: it did not happen.",
                        "What stands under {t} was struck out, since nobody did it.",
                        "It was later found that the note of {t} is not true.",
                    )
                ).format(t=each.time)
                for each in events
                if each.struck
            ]
            asides = draw.some(domain.asides, draw.weighted(((0, 0.7), (1, 0.2), (4, 0.1))))
            return " ".join(part for part in [start, *lines, *asides] if part)


def happened(draw: Draw, given: History) -> Asked | None:
    """Whether somebody did something."""
    wanted = draw.chance(0.5)
    event = draw.one(given.real)
    person, action = event.person, event.action
    if not wanted:
        struck = [each for each in given.events if each.struck]
        if struck and draw.chance(0.5):
            person, action = struck[0].person, struck[0].action
        elif draw.chance(0.6):
            others = sorted({each.person for each in given.events} - {person})
            if not others:
                return None
            person = draw.one(others)
        else:
            action = draw.one(given.never)
    clause = f"{person} {given.actions.done[action]}"
    text = draw.one(
        (
            "{c}.",
            "Is it true that {c}?",
            "Check: {c}.",
            "Did this happen: {c}?",
            "{p} is the one who {d}.",
            "It was {p} who {d}.",
            "True or false: {c}.",
        )
    ).format(c=clause, p=person, d=given.actions.done[action])
    return Asked("happened", "noul", text, None, wanted)


def was_done(draw: Draw, given: History) -> Asked | None:
    """Whether something was done by anybody."""
    wanted = draw.chance(0.5)
    if wanted:
        action = draw.one(given.real).action
    else:
        struck = [each.action for each in given.events if each.struck]
        action = struck[0] if struck and draw.chance(0.5) else draw.one(given.never)
    text = draw.one(
        (
            "Somebody {d}.",
            "Has anybody done this: {d}?",
            "Is there a valid entry by someone who {d}?",
            "At least one person {d}.",
            "Nobody {d}.",
        )
    )
    right = wanted != text.startswith("Nobody")
    return Asked("was done", "noul", text.format(d=given.actions.done[action]), None, right)


def who(draw: Draw, given: History) -> Asked | None:
    """Who did something, among those named, or nobody."""
    event = draw.one(given.real)
    action = event.action
    people = sorted({each.person for each in given.events})
    extra = draw.some([each for each in PEOPLE if each not in people], draw.number(0, 2))
    entries = [Entry(each, None, fixed=True) for each in (*people, *extra)]
    if draw.chance(0.4):
        # In its fair share of cases nobody is right.
        entries.append(Entry(draw.one(("nobody", "no one", "none of them")), None, fixed=True))
        if draw.chance(1 / len(entries)):
            action, right = draw.one(given.never), len(entries) - 1
            return _who(draw, given, action, entries, right)
    return _who(draw, given, action, entries, people.index(event.person))


def _who(draw: Draw, given: History, action: str, entries: list[Entry], right: int) -> Asked | None:
    text = draw.one(
        ("Who {d}?", "Which person {d}?", "Name the one who {d}.", "By whom was this done: {d}?")
    ).format(d=given.actions.done[action])
    return choice(draw, "who", text, entries, right, styles=NAMES)


def what(draw: Draw, given: History) -> Asked | None:
    """What a person did, or what came first, last, or next."""
    real = given.real
    ways: list[tuple[str, Event]] = [
        ("What happened first?", real[0]),
        ("What happened last?", real[-1]),
        ("What is the latest step that counts?", real[-1]),
        ("Which of these came earliest?", real[0]),
    ]
    for person in sorted({each.person for each in real}):
        own = [each for each in real if each.person == person]
        if len(own) == 1:
            ways += [(f"What did {person} do?", own[0]), (f"Which step is {person}'s?", own[0])]
    for one, two in pairwise(real):
        ways.append((f"What came right after the step of {one.time}?", two))
    text, event = draw.one(ways)
    others = [each.action for each in given.events if each is not event]
    if draw.chance(0.5):
        others += draw.some(given.never, 2)
    others = [each for each in dict.fromkeys(others) if each != event.action]
    entries = [Entry(name, given.actions.done[name]) for name in (event.action, *others)]
    styles: Styles = (("names", 0.4), ("both", 0.2), ("codes", 0.4))
    return choice(draw, "what", text, entries, 0, styles=styles)


def before(draw: Draw, given: History) -> Asked | None:
    """Whether one thing came before another."""
    if len(given.real) < 2:
        return None
    wanted = draw.chance(0.5)
    places = sorted(draw.some(range(len(given.real)), 2))
    one, two = given.real[places[0]], given.real[places[1]]
    word = draw.one(("before", "after"))
    if (word == "before") != wanted:
        one, two = two, one
    done = given.actions.done
    text = draw.one(
        (
            "{a} {x} {w} {b} {y}.",
            "Is it true that {a} {x} {w} {b} {y}?",
            "Check the order: {a} {x} {w} {b} {y}.",
        )
    ).format(a=one.person, x=done[one.action], w=word, b=two.person, y=done[two.action])
    return Asked("before", "noul", text, None, wanted)


def count(draw: Draw, given: History) -> Asked | None:
    """How many steps a person took, or how many took place, up to as many as there are."""
    people = sorted({each.person for each in given.events})
    outsider = draw.one([each for each in PEOPLE if each not in people])
    total = len(given.real)
    numbers = {person: sum(each.person == person for each in given.real) for person in (*people, outsider)}
    # Each number that can be had is as likely as the others, or one step would win by habit.
    number = draw.one(sorted({*numbers.values(), total}))
    texts = [
        text.format(p=person)
        for person, own in numbers.items()
        if own == number
        for text in ("How many valid steps did {p} take?", "Count what {p} did.")
    ]
    if number == total:
        texts += ["How many steps count?", "How many entries are valid?"]
    return Asked("events", "score", draw.one(texts), list(_WORDS[: max(total, 2) + 1]), number)


def person_is(draw: Draw, given: History) -> Asked | None:
    """Whether the person who did one thing is the person who did another."""
    if len(given.real) < 2:
        return None
    wanted = draw.chance(0.5)
    pairs = [
        (one, two)
        for one, two in combinations(draw.shuffled(given.real), 2)
        if (one.person == two.person) == wanted
    ]
    if not pairs:
        return None
    one, two = draw.one(pairs)
    done = given.actions.done
    clause = f"the person who {done[one.action]} is also the one who {done[two.action]}"
    return Asked("same person", "noul", predicate(draw, clause), None, wanted)
