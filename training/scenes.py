"""A record as a state: in prose, as a form, JSON, a dialogue, a log or a letter, with what distracts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from training.domain import Domain, Record
from training.drawing import Draw
from training.facts import Fact, Facts, Value
from training.people import PEOPLE, moments, numbered
from training.wording import capital, plural


@dataclass(frozen=True, slots=True)
class Scene:
    """A state about one record. `facts` are those it states, `unsaid` those it does not.

    `decoys` are values that the state names too, as another record's or as an earlier error. `reference` is
    the record's number where the state has several records.
    """

    record: Record
    state: Any
    facts: Facts
    decoys: Facts
    unsaid: tuple[Fact, ...]
    reference: str | None

    @property
    def said(self) -> tuple[Fact, ...]:
        """The facts that the state states."""
        return tuple(each for each in self.record.facts if each.key in self.facts)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A record with the values to show, in an order."""

    record: Record
    id: str
    person: str
    values: Sequence[tuple[Fact, Value]]


def scene(draw: Draw, domain: Domain, facts: Sequence[Fact] | None = None) -> Scene:
    """A state about a record of this domain; with these facts where given."""
    record = domain.record
    assert record is not None
    said = draw.some(facts or record.facts, draw.number(3, 6))
    values = {each.key: each.draw(draw) for each in said}
    shown = _Shown(
        record,
        numbered(draw, record.ids),
        draw.one(PEOPLE),
        [(each, values[each.key]) for each in said],
    )
    twin = other_record(draw, shown) if draw.chance(0.35) else None
    error: tuple[Fact, Value] | None = None
    if twin is None and draw.chance(0.4):
        wrong = draw.one(said)
        error = (wrong, wrong.other(draw, values[wrong.key]))
    state = draw.weighted(_STYLES)(draw, domain, shown, twin, error)
    decoys = {fact.key: value for fact, value in twin.values} if twin else {}
    if error is not None:
        decoys = {error[0].key: error[1]}
    unsaid = tuple(each for each in record.facts if each.key not in values)
    return Scene(record, state, values, decoys, unsaid, shown.id if twin else None)


def other_record(draw: Draw, shown: _Shown) -> _Shown:
    """A record with the same facts and other values."""
    id_ = numbered(draw, shown.record.ids)
    while id_ == shown.id:
        id_ = numbered(draw, shown.record.ids)
    person = draw.one([each for each in PEOPLE if each != shown.person])
    values = [(fact, fact.other(draw, value)) for fact, value in shown.values]
    return _Shown(shown.record, id_, person, values)


def key_style(draw: Draw) -> Callable[[str], str]:
    """How the keys of a state in JSON are spelled."""

    def camel(key: str) -> str:
        first, *rest = key.split()
        return first + "".join(capital(word) for word in rest)

    return draw.one((lambda key: key.replace(" ", "_"), camel, lambda key: key, capital))


def _opening(draw: Draw, shown: _Shown) -> str:
    return draw.one(shown.record.openings).format(id=shown.id, person=shown.person)


def _asides(draw: Draw, domain: Domain) -> list[str]:
    count = draw.weighted(((0, 0.58), (1, 0.2), (3, 0.12), (8, 0.06), (34, 0.04)))
    return draw.some(domain.asides, count)


def _mistake(draw: Draw, error: tuple[Fact, Value]) -> str:
    said = error[0].say(draw, error[1])
    return draw.one(
        (
            'An earlier note said "{s}"; that was a mistake.',
            'At first somebody wrote "{s}", which was wrong and has been put right.',
            'Please ignore the old entry "{s}"; it is not correct.',
            'The remark "{s}" belongs to another file and does not apply here.',
            'It was thought for a while: "{s}" This turned out not to be so.',
        )
    ).format(s=said.replace('"', "'"))


def _sentences(draw: Draw, shown: _Shown) -> list[str]:
    return [fact.say(draw, value) for fact, value in shown.values]


def _prose(
    draw: Draw, domain: Domain, shown: _Shown, twin: _Shown | None, error: tuple[Fact, Value] | None
) -> Any:
    rest = [*_sentences(draw, shown), *_asides(draw, domain)]
    if error is not None:
        rest.append(_mistake(draw, error))
    texts = [" ".join([_opening(draw, shown), *draw.shuffled(rest)])]
    if twin is not None:
        texts.append(" ".join([_opening(draw, twin), *_sentences(draw, twin)]))
    return draw.one(("\n\n", "\n")).join(draw.shuffled(texts))


def _letter(
    draw: Draw, domain: Domain, shown: _Shown, twin: _Shown | None, error: tuple[Fact, Value] | None
) -> Any:
    body = _prose(draw, domain, shown, twin, error)
    hello = draw.one(("Hello,", "Dear all,", "Good morning,", "Hi there,", f"Hi {draw.one(PEOPLE)},"))
    bye = draw.one(("Best wishes", "Kind regards", "Thanks", "Many thanks", "See you soon"))
    head = f"Subject: {shown.record.noun} {shown.id}\n\n" if draw.chance(0.5) else ""
    return f"{head}{hello}\n\n{body}\n\n{bye}\n{draw.one(PEOPLE)}"


def _form(
    draw: Draw, domain: Domain, shown: _Shown, twin: _Shown | None, error: tuple[Fact, Value] | None
) -> Any:
    mark = draw.one((": ", " = ", " - ", ":\t"))

    def block(each: _Shown) -> str:
        lines = [f"{capital(each.record.noun)}{mark}{each.id}"]
        lines += [f"{capital(fact.key)}{mark}{fact.shown(value)}" for fact, value in each.values]
        return "\n".join(lines)

    texts = [block(shown)]
    if error is not None:
        fact, value = error
        texts[0] += f"\n{capital(fact.key)} (old, no longer valid){mark}{fact.shown(value)}"
    texts += [block(twin)] if twin else []
    return "\n\n".join([*draw.shuffled(texts), *_asides(draw, domain)[:1]])


def _dialogue(
    draw: Draw, domain: Domain, shown: _Shown, twin: _Shown | None, error: tuple[Fact, Value] | None
) -> Any:
    asking, answering = draw.one((("Q", "A"), ("Clerk", "Caller"), tuple(draw.some(PEOPLE, 2))))
    lines = []
    for each in draw.shuffled([shown] if twin is None else [shown, twin]):
        lines += [f"{asking}: Which {each.record.noun} is it?", f"{answering}: Number {each.id}."]
        for fact, value in each.values:
            lines.append(f"{asking}: {fact.ask}")
            if each is shown and error is not None and error[0] is fact:
                lines += [f"{answering}: {fact.say(draw, error[1])}", f"{asking}: Are you sure?"]
                lines.append(f"{answering}: No, I misread that. {fact.say(draw, value)}")
            else:
                lines.append(f"{answering}: {fact.say(draw, value)}")
    return "\n".join(lines)


def _log(
    draw: Draw, domain: Domain, shown: _Shown, twin: _Shown | None, error: tuple[Fact, Value] | None
) -> Any:
    entries = [
        (each, fact, value) for each in ([shown, twin] if twin else [shown]) for fact, value in each.values
    ]
    entries = draw.shuffled(entries)
    if error is not None:
        entries.insert(0, (shown, *error))
    times = moments(draw, len(entries) + 1)
    lines = [
        f"{time} {each.id} {fact.key.replace(' ', '_')}={fact.shown(value)}"
        for time, (each, fact, value) in zip(times, entries, strict=False)
    ]
    if error is not None:
        lines.insert(1, f"{times[0]} {shown.id} previous entry withdrawn")
    return "\n".join(lines)


def _json(
    draw: Draw, domain: Domain, shown: _Shown, twin: _Shown | None, error: tuple[Fact, Value] | None
) -> Any:
    key = key_style(draw)
    nested = draw.chance(0.4)

    def whole(each: _Shown) -> dict[str, Any]:
        pairs = {key(fact.key): fact.plain(value) for fact, value in each.values}
        found: dict[str, Any] = {key("id"): each.id, key("handled by"): each.person}
        found |= {key("details"): pairs} if nested else pairs
        return found

    state = whole(shown)
    if error is not None:
        fact, value = error
        state[key("withdrawn")] = {key(fact.key): fact.plain(value)}
    if twin is not None:
        return {key(plural(shown.record.noun)): draw.shuffled([state, whole(twin)])}
    asides = _asides(draw, domain)
    if asides:
        state[key("remarks")] = asides
    return {key(shown.record.noun): state} if draw.chance(0.3) else state


_Style = Callable[[Draw, Domain, _Shown, "_Shown | None", "tuple[Fact, Value] | None"], Any]
_STYLES: tuple[tuple[_Style, float], ...] = (
    (_prose, 0.42),
    (_letter, 0.08),
    (_form, 0.12),
    (_dialogue, 0.12),
    (_log, 0.08),
    (_json, 0.18),
)
