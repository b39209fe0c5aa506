"""Reads a domain from its file of phrases; `training/README.md` shows the format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from training.domain import Actions, Domain, Level, Record, Scale, Topic, Topics
from training.facts import Category, Fact, Flag, Number
from training.people import ASIDES

_HEADS = ("record", "category", "number", "date", "flag", "outcomes", "actions", "topics", "scale")


class PhraseError(ValueError):
    """A file of phrases cannot be read; the message names file, line and fault."""


@dataclass(slots=True)
class _Section:
    head: str
    words: list[str]
    ask: str
    line: int
    fields: dict[str, list[str]] = field(default_factory=dict)
    pairs: dict[str, str] = field(default_factory=dict)
    entries: list[tuple[list[str], list[str]]] = field(default_factory=list)

    def all(self, name: str, least: int = 1) -> tuple[str, ...]:
        found = tuple(self.fields.get(name, ()))
        if len(found) < least:
            raise PhraseError(f"line {self.line}: {self.head} {self.ask!r} needs {least} of {name!r}")
        return found

    def one(self, name: str) -> str:
        return self.all(name)[0]


def read_domain(path: Path) -> Domain:
    """A domain, named like its file.

    Raises:
        PhraseError: the file does not follow the format.
    """
    try:
        return _domain(path.stem, _sections(path.read_text("utf-8")))
    except PhraseError as error:
        raise PhraseError(f"{path.name}, {error}") from None


def _sections(text: str) -> list[_Section]:
    found: list[_Section] = [_Section("domain", [], "", 0)]
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        now = found[-1]
        head, _, rest = line.partition(":")
        words = head.split()
        if line.startswith("- "):
            if not now.entries:
                raise PhraseError(f"line {number}: a text before any entry")
            now.entries[-1][1].append(line[2:].strip())
        elif line.startswith("@ "):
            now.entries.append(([part.strip() for part in line[2:].split("|")], []))
        elif line.startswith("= "):
            name, colon, meaning = line[2:].partition(": ")
            if not colon or name in now.pairs:
                raise PhraseError(f"line {number}: {line!r} is no new pair")
            now.pairs[name.strip()] = meaning.strip()
        elif words[0] in _HEADS and (len(words) > 1 or words[0] == "outcomes"):
            found.append(_Section(words[0], words[1:], rest.strip(), number))
        elif len(words) == 1 and rest.strip():
            now.fields.setdefault(words[0], []).append(rest.strip())
        else:
            raise PhraseError(f"line {number}: {line!r} is neither a section nor a phrase")
    return found


def _domain(name: str, sections: Sequence[_Section]) -> Domain:
    facts: list[Fact] = []
    record: _Section | None = None
    outcomes: dict[str, str] = {}
    actions: Actions | None = None
    topics: list[Topics] = []
    scales: list[Scale] = []
    for each in sections:
        match each.head:
            case "record":
                record = each
            case "category" | "number" | "date" | "flag":
                facts.append(_fact(each))
            case "outcomes":
                outcomes = each.pairs
            case "actions":
                actions = Actions(" ".join(each.words), each.pairs)
            case "topics":
                topics.append(_topics(each, name))
            case "scale":
                scales.append(_scale(each))
    return Domain(
        name,
        _record(record, facts, outcomes) if record else None,
        actions,
        tuple(topics),
        tuple(scales),
        _asides(sections[0]),
    )


def _asides(section: _Section) -> tuple[str, ...]:
    # Where the domain is about rain or lamps, a remark about rain or lamps is none.
    own = section.all("aside")
    return own if "own" in section.fields.get("asides", ()) else (*own, *ASIDES)


def _record(section: _Section, facts: Sequence[Fact], outcomes: dict[str, str]) -> Record:
    if len(facts) < 4 or len(outcomes) < 3:
        raise PhraseError(f"line {section.line}: a record needs four facts and three outcomes")
    *noun, ids = section.words
    return Record(" ".join(noun), ids, section.all("open", 2), tuple(facts), outcomes)


def _fact(section: _Section) -> Fact:
    key = section.words[0].replace("_", " ")
    match section.head:
        case "category":
            if len(section.pairs) < 3:
                raise PhraseError(f"line {section.line}: a category needs three values")
            return Category(
                key,
                section.ask,
                section.all("say", 2),
                section.one("is"),
                section.one("not"),
                section.pairs,
            )
        case "flag":
            yes, no = section.all("yes", 2), section.all("no", 2)
            return Flag(key, section.ask, yes, no, section.one("is"), section.one("not"))
        case _:
            low, _, rest = section.words[1].partition("..")
            high, _, step = rest.partition("/")
            unit = " ".join(section.words[2:]) or "{v}"
            return Number(
                key,
                section.ask,
                section.all("say", 2),
                section.one("over"),
                section.one("under"),
                int(low),
                int(high),
                int(step or 1),
                unit,
                section.head == "date",
            )


def _topics(section: _Section, domain: str) -> Topics:
    *item, manner = section.words
    found = []
    for parts, lines in section.entries:
        if len(parts) != 4 or len(lines) < 3:
            raise PhraseError(f"line {section.line}: topic {parts} needs four parts and three texts")
        names = tuple(name.strip() for name in parts[0].split(","))
        found.append(Topic(f"{domain}/{names[0]}", names, parts[1], parts[2], parts[3], tuple(lines)))
    if manner not in ("said", "written") or len(found) < 4:
        raise PhraseError(f"line {section.line}: topics need 'said' or 'written', and four of them")
    asks = (section.ask, *section.fields.get("ask", ()))
    lends = "no" not in section.fields.get("lends", ())
    return Topics(" ".join(item), asks, manner == "said", lends, tuple(found))


def _scale(section: _Section) -> Scale:
    levels = tuple(Level(tuple(parts), tuple(lines)) for parts, lines in section.entries)
    if len(levels) < 3 or any(len(level.lines) < 3 for level in levels):
        raise PhraseError(f"line {section.line}: a scale needs three levels of three texts")
    asks = (section.ask, *section.fields.get("ask", ()))
    return Scale(" ".join(section.words), asks, section.all("turn"), levels)
