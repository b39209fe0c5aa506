"""Several records side by side: which is largest, which one meets a condition, how many do, compare two."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from training.case import Asked, Proof
from training.domain import Domain
from training.drawing import Draw
from training.facts import Condition, Fact, Facts, Number, Tree, Value, holds
from training.options import NAMES, Entry, choice
from training.people import PEOPLE, numbered
from training.scenes import key_style
from training.wording import about, capital, predicate

_QUANTITIES = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight")


@dataclass(frozen=True, slots=True)
class Roster:
    """Records by name, each with the same facts."""

    noun: str
    state: Any
    facts: tuple[Fact, ...]
    rows: tuple[tuple[str, Facts], ...]


def roster(draw: Draw, domain: Domain) -> Roster:
    """Three to eight records of this domain."""
    record = domain.record
    assert record is not None
    numbers = [each for each in record.facts if isinstance(each, Number)]
    rest = [each for each in record.facts if not isinstance(each, Number)]
    facts = [*draw.some(numbers, 1), *draw.some(rest, draw.number(1, 2))]
    count = draw.weighted(((3, 0.35), (4, 0.25), (5, 0.2), (6, 0.1), (8, 0.1)))
    # Under a person's name a row is no claim or parcel, but that person's entry.
    names = draw.some(PEOPLE, count) if draw.chance(0.5) else []
    noun = "entry" if names else record.noun
    while len(names) < count:
        name = numbered(draw, record.ids)
        if name not in names:
            names.append(name)
    rows: list[tuple[str, dict[str, Value]]] = [(name, {}) for name in names]
    for fact in facts:
        seen: set[Value] = set()
        for _, values in rows:
            value = fact.draw(draw)
            for _ in range(5):
                # Numbers mostly differ, so that one is the highest; small ranges have not enough of them.
                if isinstance(fact, Number) and value in seen:
                    value = fact.draw(draw)
            seen.add(value)
            values[fact.key] = value
    state = _state(draw, domain, noun, facts, rows)
    return Roster(noun, state, tuple(facts), tuple(rows))


def _state(
    draw: Draw, domain: Domain, noun: str, facts: Sequence[Fact], rows: Sequence[tuple[str, Facts]]
) -> Any:
    match draw.number(0, 4):
        case 0:
            mark = draw.one((" | ", ",", "\t", " ; "))
            head = mark.join([noun, *(fact.key for fact in facts)])
            body = [mark.join([name, *(fact.shown(v[fact.key]) for fact in facts)]) for name, v in rows]
            return "\n".join([head, *body])
        case 1:
            key = key_style(draw)
            return [
                {key(noun): name} | {key(fact.key): fact.plain(values[fact.key]) for fact in facts}
                for name, values in rows
            ]
        case 2:
            key = key_style(draw)
            return {
                name: {key(fact.key): fact.plain(values[fact.key]) for fact in facts} for name, values in rows
            }
        case _:
            bullet = draw.one(("- ", "", "* "))
            body = [
                f"{bullet}{name}: {' '.join(fact.say(draw, values[fact.key]) for fact in facts)}"
                for name, values in rows
            ]
            return "\n".join([*body, *draw.some(domain.asides, draw.weighted(((0, 0.7), (1, 0.3))))])


def _flat(given: Roster) -> Facts:
    """All records' facts under keys of their own, for proofs."""
    return {json.dumps([name, key]): value for name, facts in given.rows for key, value in facts.items()}


def _of(name: str, tree: Tree) -> Tree:
    """A claim about one record's fact, over the keys of `_flat`."""
    if tree[0] == "not":
        return ("not", _of(name, tree[1]))
    if tree[0] in ("all", "any"):
        return (tree[0], *(_of(name, each) for each in tree[1:]))
    return (tree[0], json.dumps([name, tree[1]]), tree[2])


def _met(given: Roster, found: Condition) -> list[str]:
    return [name for name, facts in given.rows if holds(found.tree, facts)]


def _some_condition(draw: Draw, given: Roster) -> Condition:
    fact = draw.one(given.facts)
    _, facts = draw.one(given.rows)
    found = fact.condition(draw, facts[fact.key], True)
    if found.tree[0] in ("over", "under") and any(row[fact.key] == found.tree[2] for _, row in given.rows):
        # A record at the very threshold would make the opposite of the clause untrue as well.
        return fact.condition(draw, facts[fact.key], True)
    return found


def extreme(draw: Draw, given: Roster) -> Asked | None:
    """Which record has the most or the least of something."""
    number = given.facts[0]
    if not isinstance(number, Number):
        return None
    most = draw.chance(0.5)
    values = [int(facts[number.key]) for _, facts in given.rows]
    best = max(values) if most else min(values)
    if values.count(best) > 1:
        return None
    word = ("latest" if most else "earliest") if number.dated else ("highest" if most else "lowest")
    text = draw.one(
        (
            "Which {n} has the {w} {k}?",
            "Find the {w} {k}.",
            "Whose {k} is the {w}?",
            "Name the one with the {w} {k}.",
            "{w} {k}",
        )
    ).format(n=given.noun, w=word, k=number.noun)
    claims = []
    for name, _ in given.rows:
        key = json.dumps([name, number.key])
        others = [int(other[number.key]) for who, other in given.rows if who != name]
        bound = max(others) if most else min(others)
        claims.append(("over" if most else "under", key, bound))
    entries = [Entry(name, None, claim, True) for (name, _), claim in zip(given.rows, claims, strict=True)]
    right = values.index(best)
    return choice(draw, "extreme", capital(text), entries, right, styles=NAMES, facts=_flat(given))


def only_one(draw: Draw, given: Roster) -> Asked | None:
    """The one record that meets a condition, or two of them."""
    for _ in range(12):
        found = _some_condition(draw, given)
        if draw.chance(0.5):
            other = _some_condition(draw, given)
            if other.tree[-1] == found.tree[-1] or _key(other) == _key(found):
                continue
            found = Condition(f"{found.text} and {other.text}", "", ("all", found.tree, other.tree))
        met = _met(given, found)
        if len(met) == 1:
            text = draw.one(
                (
                    "For which of them is this true: {c}?",
                    "Which {n} fits: {c}?",
                    "Where does this hold: {c}?",
                    "Only one of them meets this: {c}. Which?",
                    "Find the {n} for which {c}.",
                )
            ).format(c=found.text, n=given.noun)
            entries = [Entry(name, None, _of(name, found.tree), True) for name, _ in given.rows]
            right = [name for name, _ in given.rows].index(met[0])
            return choice(draw, "only one", text, entries, right, styles=NAMES, facts=_flat(given))
    return None


def _key(found: Condition) -> str:
    tree = found.tree
    while tree[0] == "not":
        tree = tree[1]
    return str(tree[1])


def how_many(draw: Draw, given: Roster) -> Asked | None:
    """How many records meet a condition: as a score, or as a statement."""
    count = len(given.rows)
    found = _some_condition(draw, given)
    number = len(_met(given, found))
    claims = tuple(_of(name, found.tree) for name, _ in given.rows)
    if draw.chance(0.5) and count <= 6:
        wanted = draw.number(0, count)
        for _ in range(20):
            if number == wanted:
                break
            found = _some_condition(draw, given)
            found = found.turned() if draw.chance(0.5) else found
            number = len(_met(given, found))
        claims = tuple(_of(name, found.tree) for name, _ in given.rows)
        text = draw.one(("For how many of them is this true: {c}?", "How many fit: {c}?", "Count: {c}."))
        trees = tuple(("count", at, *claims) for at in range(count + 1))
        levels = list(_QUANTITIES[: count + 1])
        proof = Proof(_flat(given), trees)
        return Asked("count", "score", text.format(c=found.text), levels, number, proof)
    wanted = draw.chance(0.5)
    said = number if wanted else draw.one([each for each in range(count + 1) if each != number])
    exactly: tuple[str, Tree] = (
        f"This is true of exactly {_QUANTITIES[said]} of them: {{c}}.",
        ("count", said, *claims),
    )
    kinds: list[tuple[str, Tree]] = [
        ("At least one of them fits: {c}.", ("any", *claims)),
        ("All of them fit: {c}.", ("all", *claims)),
        ("None of them fits: {c}.", ("not", ("any", *claims))),
        ("Not all of them fit: {c}.", ("not", ("all", *claims))),
    ]
    flat = _flat(given)
    fit = [each for each in kinds if holds(each[1], flat) == wanted]
    text, tree = exactly if draw.chance(0.5) else draw.one(fit)
    return Asked("count", "noul", text.format(c=found.text), None, wanted, Proof(flat, (tree,)))


def compare(draw: Draw, given: Roster) -> Asked | None:
    """Whether one record has more than another."""
    number = given.facts[0]
    (one, left), (two, right) = draw.some(given.rows, 2)
    if not isinstance(number, Number) or left[number.key] == right[number.key]:
        return None
    word = draw.one(("later", "earlier") if number.dated else ("higher", "lower"))
    up = word in ("later", "higher")
    wanted = draw.chance(0.5)
    if (int(left[number.key]) > int(right[number.key])) != (up == wanted):
        (one, left), (two, right) = (two, right), (one, left)
    clause = f"the {number.noun} of {one} is {word} than that of {two}"
    tree = ("over" if up else "under", json.dumps([one, number.key]), int(right[number.key]))
    return Asked("compare", "noul", predicate(draw, clause), None, wanted, Proof(_flat(given), (tree,)))


def of_one(draw: Draw, given: Roster) -> Asked | None:
    """A condition on one of the records; a false one is often true of another."""
    wanted = draw.chance(0.5)
    (name, facts), (_, others) = draw.some(given.rows, 2)
    fact = draw.one(given.facts)
    found = fact.condition(draw, facts[fact.key], wanted, others[fact.key])
    text = predicate(draw, found.text, about(draw, given.noun, name))
    return Asked("of one", "noul", text, None, wanted, Proof(_flat(given), (_of(name, found.tree),)))


def value_of_one(draw: Draw, given: Roster) -> Asked | None:
    """A fact of one of the records; most of the wrong options are other records' values."""
    name, facts = draw.one(given.rows)
    fact = draw.one(given.facts)
    values = list(dict.fromkeys([facts[fact.key], *(row[fact.key] for _, row in given.rows)]))
    if len(values) < 2 or isinstance(values[0], bool):
        return None
    key = json.dumps([name, fact.key])
    entries = [Entry(fact.shown(value), None, ("is", key, value), True) for value in values]
    ask = draw.one((fact.ask, f"Which {fact.key} is given?", f"{capital(fact.key)}?"))
    text = f"{about(draw, given.noun, name)}{ask}"
    return choice(draw, "value of one", text, entries, 0, styles=NAMES, facts=_flat(given))
