"""All that is asked about a passage: its claims, its category, its own questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from training.case import Asked
from training.drawing import Draw
from training.options import Entry, choice
from training.passage import Field, Marked, Passage
from training.people import ASIDES, PEOPLE
from training.wording import NOTHING, NOTHING_MEANS

_WRAPS = (
    "{c}",
    "{c}",
    "{c}",
    "{c}",
    "Is this right? {c}",
    "True or false: {c}",
    "Statement: {c}",
    "Check this: {c}",
    "Does the text say so? {c}",
    "Yes or no: {c}",
)
_OF_CATEGORY = (
    "Is this about {n}?",
    'Does this belong under "{n}" ({d})?',
    "{d}?",
    "This is about {n}.",
    "Should this be filed under {n}?",
    "Is it a case of {n}: {d}?",
)
_CLASSIFY = (
    "Classify the text.",
    "Which label fits best?",
    "What is this about?",
    "Choose the option that fits.",
    "Where does this belong?",
)
_WHICH_CLAIM = (
    "Which statement is true?",
    "What does the text say?",
    "Which of these follows?",
    "What is correct?",
)


def shown(draw: Draw, passage: Passage) -> Any:
    """The state: mostly the text as it is, at times in JSON or beside a remark on something else."""
    text = passage.text
    if draw.chance(0.15):
        aside = draw.one(ASIDES)
        text = f"{text} {aside}" if draw.chance(0.5) else f"{aside} {text}"
    match draw.number(0, 9):
        case 0:
            return {draw.one(("text", "message", "body", "note")): text}
        case 1:
            return {"from": draw.one(PEOPLE), "text": text, "read": draw.chance(0.5)}
        case _:
            return text


def asked(draw: Draw, field: Field, passage: Passage, others: Sequence[Field]) -> list[Asked]:
    """All questions about a passage; categories of other fields may be wrong options."""
    found: list[Asked | None] = [
        _category(draw, field, passage, list(field.categories)),
        _category(draw, field, passage, draw.some(list(field.categories), draw.number(2, 4))),
        _category_among(draw, field, passage, others),
        *_of_category(draw, field, passage),
        *(_claim(draw, claim, True) for claim in passage.true),
        *(_claim(draw, claim, False) for claim in passage.false),
        _which_claim(draw, passage),
        *(_choice(draw, each) for each in passage.choices),
        *(Asked("passage scale", "score", each.asked, each.options, each.right) for each in passage.scales),
    ]
    return [each for each in found if each is not None]


def _claim(draw: Draw, claim: str, wanted: bool) -> Asked:
    return Asked("claim", "noul", draw.one(_WRAPS).format(c=claim), None, wanted)


def _of_category(draw: Draw, field: Field, passage: Passage) -> list[Asked]:
    """Whether it is of its category, and whether of another."""
    wrong = draw.one([name for name in field.categories if name != passage.category])
    return [
        Asked(
            "of a category",
            "noul",
            draw.one(_OF_CATEGORY).format(n=name, d=field.categories[name]),
            None,
            name == passage.category,
        )
        for name in (passage.category, wrong)
    ]


def _category(draw: Draw, field: Field, passage: Passage, names: Sequence[str]) -> Asked | None:
    """The category among some of its field; or none of them, as often as its place says."""
    wrong = [name for name in names if name != passage.category]
    entries = [Entry(name, field.categories[name], fixed=True) for name in (passage.category, *wrong)]
    right = 0
    if len(wrong) > 1 and draw.chance(0.2):
        nothing = Entry(draw.one(NOTHING), draw.one(NOTHING_MEANS), fixed=True)
        if draw.chance(1 / len(entries)):
            entries, right = [*entries[1:], nothing], len(entries) - 1
        else:
            entries = [*entries, nothing]
    return _among(draw, "category", draw.one((*field.asks, *_CLASSIFY)), entries, right)


def _category_among(draw: Draw, field: Field, passage: Passage, others: Sequence[Field]) -> Asked | None:
    """The category among those of other fields, up to twenty."""
    elsewhere = [each for each in others if each.name != field.name]
    names: dict[str, str] = {passage.category: field.categories[passage.category]}
    for other in draw.some(elsewhere, draw.weighted(((3, 0.4), (5, 0.3), (9, 0.2), (19, 0.1)))):
        name = draw.one(list(other.categories))
        names.setdefault(name, other.categories[name])
    entries = [Entry(name, meaning, fixed=True) for name, meaning in names.items()]
    return _among(draw, "category elsewhere", draw.one(_CLASSIFY), entries, 0)


def _among(draw: Draw, form: str, asks: str, entries: Sequence[Entry], right: int) -> Asked | None:
    if draw.chance(0.25):
        # Described alone: the description is all there is.
        entries = [Entry(each.meaning or each.name, None, fixed=True) for each in entries]
        if len({each.name for each in entries}) < len(entries):
            return None
    return choice(draw, form, asks, entries, right, styles=(("names", 0.35), ("both", 0.65)))


def _which_claim(draw: Draw, passage: Passage) -> Asked | None:
    """The claim that holds among those that do not; no questions among them."""
    true = [claim for claim in passage.true if not claim.endswith("?")]
    false = [claim for claim in passage.false if not claim.endswith("?")]
    if not true or len(false) < 2:
        return None
    entries = [Entry(claim, None, fixed=True) for claim in (draw.one(true), *false)]
    return choice(draw, "which claim", draw.one(_WHICH_CLAIM), entries, 0, styles=(("names", 1.0),))


def _choice(draw: Draw, marked: Marked) -> Asked | None:
    entries = [Entry(option, None, fixed=True) for option in marked.options]
    return choice(draw, "passage choice", marked.asked, entries, marked.right, styles=(("names", 1.0),))
