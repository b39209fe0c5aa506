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

_KINDS: tuple[tuple[Kind, float], ...] = (("choice", 0.42), ("noul", 0.3), ("score", 0.28))
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
        (records.fitting, 1.1),
        (records.wrong_one, 0.5),
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
    "score": [(topics.prominence, 0.35)],
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
    # A part with little to ask of a kind is asked for it less often.
    kinds = [
        (kind, share * min(1.0, sum(weight for _, weight in forms[kind])))
        for kind, share in _KINDS
        if kind in forms
    ]
    kind = draw.weighted(kinds)
    for _ in range(_TRIES):
        found = draw.weighted(forms[kind])(draw, state)
        if found is not None:
            return found
    return None


def _part(draw: Draw, domain: Domain, pool: Pool) -> tuple[Any, _Forms]:
    parts: list[tuple[tuple[Callable[[Draw, Domain], Any], _Forms], float]] = []
    if domain.record is not None:
        parts += [((scene, _RECORD), 0.42), ((rosters.roster, _ROSTER), 0.1)]
    if domain.actions is not None:
        parts.append(((histories.history, _HISTORY), 0.12))
    if domain.topics:
        with_pool: _Forms = {
            kind: [(_with_pool(form, pool), weight) for form, weight in forms]
            for kind, forms in _TEXT.items()
        }
        parts += [((topics.text, with_pool), 0.24), ((stacks.stack, _STACK), 0.1)]
    if domain.scales:
        parts += [((scales.graded, _GRADED), 0.13), ((scales.pair, _PAIR), 0.05)]
    make, forms = draw.weighted(parts)
    return make(draw, domain), forms


def _with_pool(form: Callable[[Draw, topics.Text, Pool], Asked | None], pool: Pool) -> _Ask:
    return lambda draw, state: form(draw, state, pool)
