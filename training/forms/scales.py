"""How far up a scale a text is: how urgent, how content, how sure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from training.case import Asked
from training.domain import Domain, Level, Scale
from training.drawing import Draw
from training.options import NAMES, Entry, Styles, choice
from training.people import PEOPLE
from training.wording import capital, joined


@dataclass(frozen=True, slots=True)
class Graded:
    """A state at one level of a scale."""

    scale: Scale
    state: Any
    place: int


def graded(draw: Draw, domain: Domain) -> Graded:
    """A text at one of the scale's levels."""
    scale = draw.one(domain.scales)
    place = draw.number(0, len(scale.levels) - 1)
    lines = draw.some(scale.levels[place].lines, 1 if draw.chance(0.65) else 2)
    asides = draw.some(domain.asides, draw.weighted(((0, 0.52), (1, 0.2), (3, 0.14), (8, 0.09), (34, 0.04))))
    body = joined(draw.shuffled([*lines, *asides]))
    match draw.number(0, 5):
        case 0:
            return Graded(scale, {"from": draw.one(PEOPLE), scale.item.replace(" ", "_"): body}, place)
        case 1:
            return Graded(scale, f"{capital(scale.item)} by {draw.one(PEOPLE)}:\n{body}", place)
        case _:
            return Graded(scale, body, place)


def rated(draw: Draw, given: Graded) -> Asked | None:
    """The level, among all or among some neighbouring ones, from low to high or turned round."""
    count = len(given.scale.levels)
    kept = sorted({given.place, *draw.some(range(count), draw.number(1, count))})
    if len(kept) < 2:
        kept = sorted({*kept, draw.one([at for at in range(count) if at != given.place])})
    turned = draw.chance(0.35)
    if turned:
        kept = kept[::-1]
    asked = draw.one(given.scale.turned if turned else given.scale.asks)
    levels = [draw.one(given.scale.levels[at].meanings) for at in kept]
    return Asked("rated", "score", asked, levels, kept.index(given.place))


def described(draw: Draw, given: Graded) -> Asked | None:
    """The level as one of several options in any order."""
    others = draw.some([at for at in range(len(given.scale.levels)) if at != given.place], draw.number(1, 4))
    levels = [given.scale.levels[at] for at in (given.place, *others)]
    entries = [Entry(meaning, meaning) for meaning in (draw.one(each.meanings) for each in levels)]
    asked = draw.one(
        (
            *given.scale.asks,
            f"Which description fits the {given.scale.item}?",
            f"Sort the {given.scale.item}.",
            "Which of these is it?",
        )
    )
    styles: Styles = (("names", 0.4), ("codes", 0.6))
    return choice(draw, "level described", asked, entries, 0, styles=styles)


def is_at(draw: Draw, given: Graded) -> Asked | None:
    """Whether a description of a level fits, or whether the text is at it or above."""
    wanted = draw.chance(0.5)
    levels = given.scale.levels
    if draw.chance(0.4):
        # Above and below are told by the two sides of a cut through the scale.
        cut = draw.number(1, len(levels) - 1)
        high = "; or ".join(draw.one(each.meanings) for each in levels[cut:])
        low = "; or ".join(draw.one(each.meanings) for each in levels[:cut])
        above = given.place >= cut
        sides = {"true": high, "false": low} if above == wanted else {"true": low, "false": high}
        asked = draw.one(
            (f"Which side is this {given.scale.item} on?", "Which side applies?", given.scale.asks[0])
        )
        return Asked("level cut", "noul", asked, sides, wanted)
    other = draw.one([each for each in levels if each is not levels[given.place]])
    level = levels[given.place] if wanted else other
    asked = draw.one(
        (
            "This describes the {i}: {m}.",
            'Would you say of this {i}: "{m}"?',
            "{q} Suggested answer: {m}. Is it right?",
            'A colleague rated the {i} as "{m}". Agreed?',
        )
    ).format(i=given.scale.item, m=draw.one(level.meanings), q=given.scale.asks[0])
    return Asked("level stated", "noul", asked, None, wanted)


@dataclass(frozen=True, slots=True)
class Pair:
    """Texts side by side, each at another level."""

    scale: Scale
    state: Any
    places: tuple[tuple[str, int], ...]


def pair(draw: Draw, domain: Domain) -> Pair:
    """Two to four texts of different levels."""
    scale = draw.one(domain.scales)
    count = draw.number(2, min(4, len(scale.levels)))
    levels = draw.some(range(len(scale.levels)), count)
    names = draw.some(PEOPLE, count) if draw.chance(0.5) else list("ABCD"[:count])
    lines = [f"{name}: {draw.one(scale.levels[at].lines)}" for name, at in zip(names, levels, strict=True)]
    state: Any = "\n".join(lines)
    if draw.chance(0.2):
        state = dict(line.split(": ", 1) for line in lines)
    return Pair(scale, state, tuple(zip(names, levels, strict=True)))


def most(draw: Draw, given: Pair) -> Asked | None:
    """Which text is highest or lowest on the scale."""
    top = draw.chance(0.5)
    places = [at for _, at in given.places]
    right = places.index(max(places) if top else min(places))
    level: Level = given.scale.levels[-1 if top else 0]
    asked = draw.one(
        (
            "Which {i} comes closest to this: {m}?",
            'Which one is nearest to "{m}"?',
            '{q} Name the one nearest to "{m}".',
        )
    ).format(i=given.scale.item, m=draw.one(level.meanings), q=given.scale.asks[0])
    entries = [Entry(name, None, fixed=True) for name, _ in given.places]
    return choice(draw, "nearest", asked, entries, right, styles=NAMES)


def one_rated(draw: Draw, given: Pair) -> Asked | None:
    """The level of one of the texts."""
    name, place = draw.one(given.places)
    levels = [draw.one(each.meanings) for each in given.scale.levels]
    turned = draw.chance(0.35)
    asked = f"{name}: {draw.one(given.scale.turned if turned else given.scale.asks)}"
    if turned:
        return Asked("one rated", "score", asked, levels[::-1], len(levels) - 1 - place)
    return Asked("one rated", "score", asked, levels, place)


def one_is_at(draw: Draw, given: Pair) -> Asked | None:
    """Whether a description fits one of the texts; a false one fits another."""
    wanted = draw.chance(0.5)
    (name, place), (_, other) = draw.some(given.places, 2)
    meaning = draw.one(given.scale.levels[place if wanted else other].meanings)
    asked = draw.one(('{n}: "{m}". Does that fit?', "This fits {n}: {m}.", 'Does "{m}" describe {n}?'))
    return Asked("one stated", "noul", asked.format(n=name, m=meaning), None, wanted)
