"""Options of a choice: named, described or both, in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from training.case import Asked, Proof
from training.drawing import Draw
from training.facts import Facts, Tree
from training.wording import codes, styled

Style = Literal["names", "both", "codes"]
Styles: TypeAlias = Sequence[tuple[Style, float]]
"""How options are shown, and how often: by name, by name and description, described under an empty name."""

NAMES: Styles = (("names", 1.0),)


@dataclass(frozen=True, slots=True)
class Entry:
    """An option before it is worded. `fixed` names keep their style ("none of these")."""

    name: str
    meaning: str | None
    claim: Tree = ()
    fixed: bool = False


def choice(
    draw: Draw,
    form: str,
    instructions: str | None,
    entries: Sequence[Entry],
    right: int,
    *,
    styles: Styles = (("names", 0.35), ("both", 0.35), ("codes", 0.3)),
    facts: Facts | None = None,
) -> Asked | None:
    """A choice whose right option is `entries[right]`; nothing where two options would read the same."""
    style = draw.weighted(styles)
    plain = [each.name for each in entries if not each.fixed]
    names = iter(codes(draw, len(plain)) if style == "codes" else styled(draw, plain))
    options = []
    for place, each in enumerate(entries):
        meaning = None if style == "names" else each.meaning
        options.append((each.name if each.fixed else next(names), meaning, each.claim, place == right))
    if len({name for name, *_ in options}) < len(options):
        return None
    meanings = [meaning for _, meaning, *_ in options if meaning is not None]
    if len(set(meanings)) < len(meanings):
        return None
    options = draw.shuffled(options)
    expected = next(name for name, _, _, is_right in options if is_right)
    proof = Proof(facts, tuple(claim for _, _, claim, _ in options)) if facts is not None else None
    return Asked(form, "choice", instructions, {name: text for name, text, *_ in options}, expected, proof)
