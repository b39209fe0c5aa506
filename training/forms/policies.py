"""Questions that apply a rule to a record: conditions with exceptions, lists of rules, cells, bands."""

from __future__ import annotations

from itertools import pairwise

from training.case import Asked, Proof
from training.drawing import Draw
from training.facts import Condition, Number, Tree, holds
from training.forms.records import condition, prefix
from training.options import Entry, Styles, choice
from training.scenes import Scene
from training.wording import capital, led, listed


def _rule(draw: Draw, scene: Scene, wanted: bool) -> Condition:
    """One to three conditions joined to a rule that is as true as wanted."""
    facts = draw.some(scene.said, 3)
    form = draw.weighted((("one", 0.25), ("all", 0.3), ("any", 0.2), ("unless", 0.25)))
    if form == "one":
        return condition(draw, scene, facts[0], wanted)
    if form == "unless":
        # Unmet in one of two ways: the base fails, or the exception holds.
        base = wanted or draw.chance(0.6)
        stop = not wanted and (base or draw.chance(0.3))
        one, two = condition(draw, scene, facts[0], base), condition(draw, scene, facts[1], stop)
        text = f"{one.text}, unless {two.text}"
        return Condition(text, f"not ({text})", ("all", one.tree, ("not", two.tree)))
    used = facts[: draw.number(2, 3)]
    loner = wanted != (form == "all")
    odd = draw.one(used)
    truths = [each is odd if form == "any" else each is not odd for each in used] if loner else []
    if not loner:
        truths = [wanted] * len(used)
    parts = [condition(draw, scene, each, truth) for each, truth in zip(used, truths, strict=True)]
    text = listed([part.text for part in parts], "and" if form == "all" else "or")
    return Condition(text, f"not ({text})", (form, *(part.tree for part in parts)))


def applies(draw: Draw, scene: Scene) -> Asked | None:
    """A predicate with a rule in its instructions or criteria."""
    wanted = draw.chance(0.5)
    rule = _rule(draw, scene, wanted)
    noun = scene.record.noun
    action, meaning = draw.one(list(scene.record.outcomes.items()))
    proof = Proof(scene.facts, (rule.tree,))
    if draw.chance(0.3):
        label = draw.one(
            (
                f'Is the outcome "{action}"?',
                f"{capital(action)}?",
                f'The outcome for the {noun} is "{action}".',
                f'Decide on "{action}" for this {noun}.',
            )
        )
        sides = {"true": rule.text, "false": draw.one(("otherwise", "anything else", "in all other cases"))}
        return Asked("rule in criteria", "noul", led(prefix(draw, scene), label), sides, wanted, proof)
    text = draw.one(
        (
            'Rule for "{a}" ({m}): {r}. Does the {n} qualify?',
            'The outcome is "{a}" only if {r}. Is it "{a}" here?',
            "Policy: {r}. Is the policy met?",
            "Say yes only if {r}.",
            "Condition: {r}. Is the condition met by the {n}?",
            '"{a}" applies if {r}. Does it apply to this {n}?',
            "The requirement reads: {r}. The {n} meets it.",
            'We choose "{a}" when {r}. Should we here?',
        )
    ).format(a=action, m=meaning, n=noun, r=rule.text)
    return Asked("rule", "noul", led(prefix(draw, scene), text), None, wanted, proof)


def first_rule(draw: Draw, scene: Scene) -> Asked | None:
    """A list of rules of which the first that fits decides; the outcomes are dealt out at random."""
    outcomes = list(scene.record.outcomes.items())
    count = draw.number(2, min(4, len(outcomes), len(scene.said) + 1))
    dealt = draw.some(outcomes, count)
    right = draw.number(0, count - 1)
    facts = draw.some(scene.said, count - 1)
    rules = [
        condition(draw, scene, fact, draw.chance(0.5) if at > right else at == right)
        for at, fact in enumerate(facts)
    ]
    arrow = draw.one(("{r}: {o}", "if {r}, {o}", "{o} if {r}", "{r} -> {o}"))
    lines = [arrow.format(r=rule.text, o=f'"{name}"') for rule, (name, _) in zip(rules, dealt, strict=False)]
    lines.append(
        draw.one(('otherwise: "{o}"', 'in all other cases "{o}"', 'else "{o}"')).format(o=dealt[-1][0])
    )
    joined = draw.one(("; ", "\n"))
    marks = [f"{at}. " if joined == "\n" else "" for at in range(1, count + 1)]
    shown = joined.join(f"{mark}{line}" for mark, line in zip(marks, lines, strict=True))
    text = draw.one(
        (
            "The first rule that fits decides.\n{s}",
            "Apply these rules in order and stop at the first that fits: {s}.",
            "Rules, in this order: {s}. What is the outcome?",
            f"What happens with the {scene.record.noun}? In order: {{s}}.",
        )
    ).format(s=shown)
    entries: list[Entry] = []
    for at, (name, meaning) in enumerate(dealt):
        own = (rules[at].tree,) if at < len(rules) else ()
        entries.append(Entry(name, meaning, ("all", *own, *(("not", rule.tree) for rule in rules[:at]))))
    styles: Styles = (("names", 0.6), ("both", 0.4))
    return choice(
        draw, "first rule", led(prefix(draw, scene), text), entries, right, styles=styles, facts=scene.facts
    )


def cells(draw: Draw, scene: Scene) -> Asked | None:
    """Outcomes that differ by one fact: both conditions, only one of them, neither."""
    one, two = (condition(draw, scene, fact, draw.chance(0.5)) for fact in draw.some(scene.said, 2))
    sides = [(one, two), (one, two.turned()), (one.turned(), two), (one.turned(), two.turned())]
    word = draw.one(("and", "and", "but"))
    merged = draw.chance(0.25)
    pairs: list[tuple[str, Tree]] = [(f"{a.text} {word} {b.text}", ("all", a.tree, b.tree)) for a, b in sides]
    if merged:
        pairs = [*pairs[:2], (one.opposite, ("not", one.tree))]
    outcomes = list(scene.record.outcomes)
    entries = [
        Entry(name, text, tree)
        for name, (text, tree) in zip(draw.some(outcomes, len(pairs)), pairs, strict=False)
    ]
    if len(entries) < len(pairs):
        entries = [Entry(str(at), text, tree) for at, (text, tree) in enumerate(pairs)]
    return _described(draw, scene, "cells", entries)


def bands(draw: Draw, scene: Scene) -> Asked | None:
    """Where a number falls: as levels of a score, or as options in any order."""
    facts = [each for each in scene.said if isinstance(each, Number)]
    if not facts:
        return None
    fact = draw.one(facts)
    as_score = draw.chance(0.75)
    value = int(scene.facts[fact.key])
    # A scale may go on beyond the values that are drawn; the year may not.
    end = fact.high if fact.dated else fact.high + 10 * fact.step
    grid = range(fact.low + fact.step, end, fact.step)
    below = [each for each in grid if each <= value]
    above = [each for each in grid if each > value]
    # As many bands as leave each of them possible, or the outer ones would be right too seldom.
    most = 1 + min(len(below), len(above), 6 if as_score else 4)
    if most < 2:
        return None
    count = draw.number(2, most)
    right = draw.number(0, count - 1)
    near = 0 if draw.chance(0.65) else 15
    starts = sorted(draw.some(below[-near:], right) + draw.some(above[: near or None], count - 1 - right))
    texts = _bands(draw, fact, starts)
    ends = [None, *starts, None]
    trees = []
    for low, high in pairwise(ends):
        parts = [("not", ("under", fact.key, low))] if low is not None else []
        trees.append(("all", *parts, *([("under", fact.key, high)] if high is not None else [])))
    if as_score:
        ask = draw.one(
            (
                fact.ask,
                f"Place the {fact.noun} on the scale.",
                f"Which band fits the {fact.noun}?",
                f"{capital(fact.key)}",
                f"Rate the {fact.noun}.",
            )
        )
        asked = led(prefix(draw, scene), ask)
        return Asked("bands", "score", asked, texts, right, Proof(scene.facts, tuple(trees)))
    entries = [Entry(text, text, tree) for text, tree in zip(texts, trees, strict=True)]
    text = led(prefix(draw, scene), draw.one((fact.ask, f"Which band does the {fact.noun} fall into?")))
    return choice(
        draw, "bands", text, entries, right, styles=(("names", 0.3), ("codes", 0.7)), facts=scene.facts
    )


def _bands(draw: Draw, fact: Number, starts: list[int]) -> list[str]:
    shown = [fact.shown(each) for each in starts]
    ends = [fact.shown(each - fact.step) for each in starts]
    first, last = f"{ends[0]} or less", f"{shown[-1]} or more"
    if fact.dated:
        first, last = f"before {shown[0]}", f"{shown[-1]} or later"
    elif draw.chance(0.5):
        first = f"less than {shown[0]}"
    middle = draw.one(("{a} to {b}", "from {a} up to {b}", "between {a} and {b}"))
    inner = [
        low if low == high else middle.format(a=low, b=high)
        for low, high in zip(shown, ends[1:], strict=False)
    ]
    return [first, *inner, last]


def _described(draw: Draw, scene: Scene, form: str, entries: list[Entry]) -> Asked | None:
    """A choice among descriptions that exclude each other; the names say nothing or the wrong thing."""
    right = next(at for at, each in enumerate(entries) if holds(each.claim, scene.facts))
    noun = scene.record.noun
    text = draw.one(
        (
            f"Where does the {noun} belong?",
            f"What is to be done with the {noun}?",
            "Which option applies?",
            f"Sort the {noun} into the right group.",
            "Choose by the criteria.",
            "Which case is this?",
            "Read the descriptions and pick the one that is met.",
        )
    )
    styles: Styles = (("both", 0.35), ("codes", 0.65))
    if entries[0].name == "0":
        styles = (("codes", 1.0),)
    return choice(
        draw, form, led(prefix(draw, scene), text), entries, right, styles=styles, facts=scene.facts
    )


def steps(draw: Draw, scene: Scene) -> Asked | None:
    """A ladder: each level needs one condition more than the one below it."""
    count = draw.number(2, min(4, len(scene.said)))
    right = draw.number(0, count)
    facts = draw.some(scene.said, count)
    parts = [
        condition(draw, scene, fact, at < right or (at > right and draw.chance(0.5)))
        for at, fact in enumerate(facts)
    ]
    levels = [parts[0].opposite]
    trees = [("not", parts[0].tree)]
    for at in range(1, count + 1):
        met = listed([part.text for part in parts[:at]])
        levels.append(met if at == count else f"{met}, but {parts[at].opposite}")
        rest = () if at == count else (("not", parts[at].tree),)
        trees.append(("all", *(part.tree for part in parts[:at]), *rest))
    text = draw.one(
        (
            f"Which level has the {scene.record.noun} reached?",
            "Which level is met?",
            "Rate by the descriptions.",
            f"Grade the {scene.record.noun}.",
            "How far do the conditions hold?",
        )
    )
    asked = led(prefix(draw, scene), text)
    return Asked("steps", "score", asked, levels, right, Proof(scene.facts, tuple(trees)))
