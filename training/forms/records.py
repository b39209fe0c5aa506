"""Questions that look a record's facts up: is it so, which value, how much, what does the text not say."""

from __future__ import annotations

from training.case import Asked, Proof
from training.drawing import Draw
from training.facts import Category, Condition, Fact, Flag, Number
from training.options import NAMES, Entry, Styles, choice
from training.scenes import Scene
from training.wording import NOTHING, NOTHING_MEANS, UNKNOWN, about, capital, led, listed, predicate


def condition(draw: Draw, scene: Scene, fact: Fact, wanted: bool) -> Condition:
    """A condition on a stated fact."""
    return fact.condition(draw, scene.facts[fact.key], wanted, scene.decoys.get(fact.key))


def prefix(draw: Draw, scene: Scene) -> str:
    """Names the record where the state has two."""
    return about(draw, scene.record.noun, scene.reference)


def is_so(draw: Draw, scene: Scene) -> Asked | None:
    """A condition, or two of them, as a statement."""
    wanted = draw.chance(0.5)
    facts = draw.some(scene.said, 2)
    if draw.chance(0.65) or len(facts) < 2:
        found = condition(draw, scene, facts[0], wanted)
        text = predicate(draw, found.text, prefix(draw, scene))
        return Asked("is so", "noul", text, None, wanted, Proof(scene.facts, (found.tree,)))
    both = draw.chance(0.5)
    # Both: a false one has one false part, or two; either: a true one has one true part, or two.
    lone = [not both, both] if draw.chance(0.75) else [not both, not both]
    truths = [both, both] if wanted == both else draw.shuffled(lone)
    one, two = (condition(draw, scene, fact, truth) for fact, truth in zip(facts, truths, strict=True))
    clause = f"{one.text} and {two.text}" if both else f"{one.text} or {two.text}"
    template = draw.one(
        ("{C}.", "Is it true that {c}?", "Check: {c}.", "True or false: {c}.", "Does it hold that {c}?")
    )
    text = led(prefix(draw, scene), template.format(c=clause, C=capital(clause)))
    tree = ("all" if both else "any", one.tree, two.tree)
    return Asked("is so, two parts", "noul", text, None, wanted, Proof(scene.facts, (tree,)))


def criteria(draw: Draw, scene: Scene) -> Asked | None:
    """A predicate whose criteria say what true and false mean, with a short label as the question."""
    wanted = draw.chance(0.5)
    fact = draw.one(scene.said)
    found = condition(draw, scene, fact, wanted)
    label = draw.one(("{k}", "Check the {k}", "Judge the {k}", "Verdict on the {k}"))
    if isinstance(fact, Flag):
        label = draw.one((fact.ask, "{k}?", "Does the criterion hold?", "Judge by the criteria."))
    text = led(prefix(draw, scene), capital(label.format(k=fact.key)))
    sides = {"true": found.text, "false": found.opposite}
    if draw.chance(0.3):
        del sides["false"]
    return Asked("criteria", "noul", text, sides, wanted, Proof(scene.facts, (found.tree,)))


def said_at_all(draw: Draw, scene: Scene) -> Asked | None:
    """Whether the text answers a question at all."""
    wanted = draw.chance(0.5)
    if not wanted and not scene.unsaid:
        return None
    fact = draw.one(scene.said if wanted else scene.unsaid)
    text = draw.one(
        (
            'Is this question answered here: "{a}"',
            "Does the text say anything about the {k}?",
            "Does the text give the {k}?",
            "The text mentions the {k}.",
            'Can one tell from this: "{a}"',
            "Information on the {k} is missing.",
            "The text leaves the {k} open.",
        )
        if not isinstance(fact, Flag)
        else (
            'Is this question answered here: "{a}"',
            'Can one tell from this: "{a}"',
            'The text leaves this open: "{a}"',
        )
    )
    missing = text.startswith(("Information", "The text leaves"))
    text = led(prefix(draw, scene), text.format(a=fact.ask, k=fact.key))
    return Asked("said at all", "noul", text, None, wanted != missing)


def which_value(draw: Draw, scene: Scene) -> Asked | None:
    """A fact's value among others; sometimes none of those listed is right."""
    facts = [each for each in scene.said if isinstance(each, Category)]
    if not facts:
        return None
    fact = draw.one(facts)
    right = scene.facts[fact.key]
    others = [value for value in fact.values if value != right]
    decoy = scene.decoys.get(fact.key)
    others = draw.shuffled(others)[: draw.number(1, len(others))]
    if decoy is not None and decoy not in others and decoy != right:
        others[-1] = str(decoy)
    ask = draw.one(
        (
            fact.ask,
            fact.ask,
            f"Which {fact.key} is given?",
            f"{capital(fact.key)}?",
            f"Pick the {fact.key}.",
            f"Please choose the right {fact.key}.",
            f"What does the text give as the {fact.key}?",
        )
    )
    entries = [Entry(value, fact.values[value], ("is", fact.key, value)) for value in others]
    listed_too = Entry(str(right), fact.values[str(right)], ("is", fact.key, right))
    if not draw.chance(0.3):
        entries.append(listed_too)
    else:
        count = len(others) + 1
        nothing = Entry(draw.one(NOTHING), draw.one(NOTHING_MEANS), fixed=True)
        right_is_nothing = draw.chance(1 / count) or count == 2
        if not right_is_nothing:
            entries = [*entries[1:], listed_too]
        claim = ("not", ("any", *(each.claim for each in entries)))
        entries.append(Entry(nothing.name, nothing.meaning, claim, True))
        place = len(entries) - (1 if right_is_nothing else 2)
        return choice(draw, "which value", led(prefix(draw, scene), ask), entries, place, facts=scene.facts)
    place = len(entries) - 1
    return choice(draw, "which value", led(prefix(draw, scene), ask), entries, place, facts=scene.facts)


def which_number(draw: Draw, scene: Scene) -> Asked | None:
    """A number among others, some of them from elsewhere in the state."""
    facts = [each for each in scene.said if isinstance(each, Number)]
    if not facts:
        return None
    fact = draw.one(facts)
    right = int(scene.facts[fact.key])
    values = {right} | ({int(scene.decoys[fact.key])} if fact.key in scene.decoys else set())
    wanted = max(len(values), draw.number(2, 7))
    # The state's other numbers are the ones to be mistaken for it; where they are not enough, any will do.
    for other in draw.shuffled([each for each in scene.said if isinstance(each, Number) and not each.dated]):
        if len(values) < wanted and not fact.dated:
            values.add(int(scene.facts[other.key]))
    for _ in range(40):
        if len(values) < wanted:
            values.add(int(fact.draw(draw)))
    entries = [
        Entry(fact.shown(each), None, ("is", fact.key, each), True)
        for each in sorted(values, key=lambda value: (value != right, value))
    ]
    text = led(prefix(draw, scene), fact.ask)
    return choice(draw, "which number", text, entries, 0, styles=NAMES, facts=scene.facts)


def supported(draw: Draw, scene: Scene) -> Asked | None:
    """A statement that the text supports, contradicts, or does not speak of."""
    right = draw.number(0, 2)
    if right == 2 and not scene.unsaid:
        return None
    if right == 2:
        fact = draw.one(scene.unsaid)
        claim = fact.condition(draw, fact.draw(draw), draw.chance(0.5)).text
    else:
        claim = condition(draw, scene, draw.one(scene.said), right == 0).text
    names = draw.one(
        (
            ("supported", "contradicted", draw.one(UNKNOWN)),
            ("yes", "no", draw.one(UNKNOWN)),
            ("right", "wrong", "open"),
            ("follows", "conflicts", "neither"),
            ("confirmed", "refuted", draw.one(UNKNOWN)),
        )
    )
    meanings = (
        draw.one(("the text says so", "the statement agrees with the text", "it is stated there")),
        draw.one(
            ("the text says otherwise", "the statement clashes with the text", "the opposite is stated")
        ),
        draw.one(
            ("the text is silent on this", "it can be neither confirmed nor denied", "nothing is said on it")
        ),
    )
    text = draw.one(
        (
            'How does the text bear on this statement: "{C}."',
            "{C}.",
            "Compare with the text: {c}.",
            'Is the claim "{c}" backed by what is given?',
            "Verify: {c}.",
        )
    ).format(c=claim, C=capital(claim))
    entries = [Entry(name, meaning) for name, meaning in zip(names, meanings, strict=True)]
    styles: Styles = (
        (("both", 0.5), ("codes", 0.3)) if not text.startswith("Is") else (("names", 0.5), ("both", 0.5))
    )
    return choice(draw, "supported", led(prefix(draw, scene), text), entries, right, styles=styles)


def left_open(draw: Draw, scene: Scene) -> Asked | None:
    """Which of several questions the text leaves open, or alone answers."""
    wants_open = draw.chance(0.5)
    ones, rest = (scene.unsaid, scene.said) if wants_open else (scene.said, scene.unsaid)
    if not ones or not rest:
        return None
    right = draw.one(ones)
    others = draw.some(rest, draw.number(1, 5))
    as_questions = draw.chance(0.5) or any(isinstance(each, Flag) for each in (right, *others))
    entries = [
        Entry(each.ask if as_questions else each.key, None, fixed=as_questions) for each in (right, *others)
    ]
    text = draw.one(
        (
            "What does the text leave open?",
            "Which of these is not given?",
            "Which piece of information is missing?",
        )
        if wants_open
        else ("Which of these can be answered from the text?", "What is given?", "Which of these is stated?")
    )
    return choice(draw, "left open", led(prefix(draw, scene), text), entries, 0, styles=NAMES)


def fitting(draw: Draw, scene: Scene) -> Asked | None:
    """Which description fits: all but one have a part, or two, that is not so."""
    size = draw.number(1, 3)
    count = draw.weighted(((2, 0.25), (3, 0.3), (4, 0.25), (5, 0.1), (6, 0.1)))
    facts = draw.some(scene.said, size)
    entries: list[Entry] = []
    for place in range(count):
        wrong = set(draw.some(range(len(facts)), 1 if draw.chance(0.7) else 2)) if place else set()
        parts = [condition(draw, scene, fact, at not in wrong) for at, fact in enumerate(facts)]
        text = listed([part.text for part in draw.shuffled(parts)])
        entries.append(Entry(text, text, ("all", *(part.tree for part in parts))))
    text = draw.one(
        (
            f"Which description fits the {scene.record.noun}?",
            "Which of these statements is true?",
            "Choose the summary that agrees with the text.",
            "Only one of these is right. Which?",
            "What is correct?",
            f"Pick the statement that is true of the {scene.record.noun}.",
        )
    )
    styles: Styles = (("names", 0.3), ("codes", 0.7)) if size == 1 else (("codes", 1.0),)
    return choice(
        draw, "fitting", led(prefix(draw, scene), text), entries, 0, styles=styles, facts=scene.facts
    )


def wrong_one(draw: Draw, scene: Scene) -> Asked | None:
    """The one statement of several that is not true."""
    count = draw.number(2, min(5, len(scene.said)))
    parts = [
        condition(draw, scene, fact, place > 0) for place, fact in enumerate(draw.some(scene.said, count))
    ]
    entries = [Entry(part.text, part.text, ("not", part.tree)) for part in parts]
    text = draw.one(
        (
            "Which of these statements is not true?",
            "One of these is wrong. Which?",
            "Which sentence contradicts the text?",
            f"What is not the case for the {scene.record.noun}?",
        )
    )
    styles: Styles = (("names", 0.3), ("codes", 0.7))
    return choice(
        draw, "wrong one", led(prefix(draw, scene), text), entries, 0, styles=styles, facts=scene.facts
    )


def how_many(draw: Draw, scene: Scene) -> Asked | None:
    """How many of some statements hold, as a score."""
    count = draw.number(2, min(4, len(scene.said)))
    wanted = draw.number(0, count)
    true = set(draw.some(range(count), wanted))
    facts = draw.some(scene.said, count)
    parts = [condition(draw, scene, fact, at in true) for at, fact in enumerate(facts)]
    marks = draw.one((("(a)", "(b)", "(c)", "(d)"), ("1.", "2.", "3.", "4."), ("-", "-", "-", "-")))
    shown = "; ".join(f"{mark} {part.text}" for mark, part in zip(marks, parts, strict=False))
    text = draw.one(
        (
            "How many of these hold? {s}.",
            "Count the points that are met: {s}.",
            "How many statements are true? {s}.",
        )
    ).format(s=shown)
    words = ("none", "one", "two", "three", "four")
    levels = draw.one(
        (
            ["none of them", *(f"{word} of them" for word in words[1 : count + 1])],
            [f"{word} met" for word in words[: count + 1]],
            list(words[: count + 1]),
        )
    )
    claims = tuple(("count", place, *(part.tree for part in parts)) for place in range(count + 1))
    asked = led(prefix(draw, scene), text)
    return Asked("how many", "score", asked, levels, wanted, Proof(scene.facts, claims))
