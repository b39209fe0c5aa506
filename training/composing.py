"""A case: a part of a domain, a state about it, and one to three questions of different forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from training.case import Asked, Case, Kind
from training.domain import Domain, Topics
from training.drawing import Draw
from training.forms import histories, policies, records, rosters, scales, stacks, topics
from training.scenes import scene

Pool = Sequence[Topics]
"""The topics of all domains in use: wrong options may come from any of them."""
_Ask = Callable[[Draw, Any], Asked | None]
_Forms = Mapping[Kind, Sequence[tuple[_Ask, float]]]

_KINDS: tuple[tuple[Kind, float], ...] = (("choice", 0.42), ("noul", 0.33), ("score", 0.25))
_QUESTIONS = ((1, 0.55), (2, 0.3), (3, 0.15))
_TRIES = 12

_RECORD: _Forms = {
    "noul": [
        (records.is_so, 2),
        (records.criteria, 1),
        (records.said_at_all, 0.7),
        (policies.applies, 2.5),
    ],
    "choice": [
        (records.which_value, 1.5),
        (records.which_number, 0.7),
        (records.supported, 1),
        (records.left_open, 0.6),
        (records.fitting, 1.3),
        (policies.first_rule, 1.5),
        (policies.cells, 1.5),
        (policies.bands, 0.6),
    ],
    "score": [(records.how_many, 1), (policies.bands, 1.6), (policies.steps, 1)],
}
_ROSTER: _Forms = {
    "noul": [(rosters.of_one, 1), (rosters.compare, 1), (rosters.how_many, 1)],
    "choice": [(rosters.extreme, 1), (rosters.only_one, 1.5), (rosters.value_of_one, 1)],
    "score": [(rosters.how_many, 1)],
}
_HISTORY: _Forms = {
    "noul": [
        (histories.happened, 2),
        (histories.was_done, 1),
        (histories.before, 1),
        (histories.person_is, 0.5),
    ],
    "choice": [(histories.who, 1), (histories.what, 1.2)],
    "score": [(histories.count, 1)],
}
_TEXT: Mapping[Kind, Sequence[tuple[Callable[[Draw, topics.Text, Pool], Asked | None], float]]] = {
    "noul": [(topics.is_about, 2), (topics.one_of, 1)],
    "choice": [
        (topics.which_topic, 2.5),
        (topics.across, 1.3),
        (topics.routed, 1),
        (topics.in_passing, 0.5),
        (topics.summed_up, 1),
    ],
}
_STACK: _Forms = {
    "noul": [(stacks.of_one, 1), (stacks.any_text, 1)],
    "choice": [(stacks.which_text, 1.2), (stacks.one_text, 1)],
    "score": [(stacks.how_many, 1)],
}
_GRADED: _Forms = {
    "noul": [(scales.is_at, 1)],
    "choice": [(scales.described, 1)],
    "score": [(scales.rated, 1)],
}
_PAIR: _Forms = {
    "noul": [(scales.one_is_at, 1)],
    "choice": [(scales.most, 1)],
    "score": [(scales.one_rated, 1)],
}


def compose(draw: Draw, id_: str, domain: Domain, pool: Pool) -> Case:
    """A case of this domain."""
    while True:
        state, forms = _part(draw, domain, pool)
        asked: dict[str, Asked] = {}
        for _ in range(draw.weighted(_QUESTIONS)):
            found = _ask(draw, state, forms)
            if found is not None:
                asked.setdefault(found.form, found)
        if asked:
            return Case(id_, domain.name, state.state, tuple(asked.values()))


def _ask(draw: Draw, state: Any, forms: _Forms) -> Asked | None:
    kinds = [(kind, weight) for kind, weight in _KINDS if kind in forms]
    kind = draw.weighted(kinds)
    for _ in range(_TRIES):
        found = draw.weighted(forms[kind])(draw, state)
        if found is not None:
            return found
    return None


def _part(draw: Draw, domain: Domain, pool: Pool) -> tuple[Any, _Forms]:
    parts: list[tuple[str, float]] = []
    if domain.record is not None:
        parts += [("record", 0.42), ("roster", 0.1)]
    if domain.actions is not None:
        parts.append(("history", 0.12))
    if domain.topics:
        parts += [("text", 0.24), ("stack", 0.1)]
    if domain.scales:
        parts += [("graded", 0.13), ("pair", 0.05)]
    match draw.weighted(parts):
        case "record":
            return scene(draw, domain), _RECORD
        case "roster":
            return rosters.roster(draw, domain), _ROSTER
        case "history":
            return histories.history(draw, domain), _HISTORY
        case "text":
            bound: _Forms = {
                kind: [(_with_pool(form, pool), weight) for form, weight in forms]
                for kind, forms in _TEXT.items()
            }
            return topics.text(draw, domain), bound
        case "stack":
            return stacks.stack(draw, domain), _STACK
        case "graded":
            return scales.graded(draw, domain), _GRADED
        case _:
            return scales.pair(draw, domain), _PAIR


def _with_pool(form: Callable[[Draw, topics.Text, Pool], Asked | None], pool: Pool) -> _Ask:
    return lambda draw, state: form(draw, state, pool)
