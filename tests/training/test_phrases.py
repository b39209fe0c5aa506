"""The files of phrases: what they must hold, and what a faulty one is told."""

import re
from pathlib import Path

import pytest

from training import domains
from training.domain import Domain
from training.facts import Category, Flag, Number
from training.kinship import strangers
from training.reading import PhraseError, read_domain
from training.wording import inverted

NAMES = domains.names()


@pytest.fixture(scope="module")
def loaded() -> list[Domain]:
    return [domains.load(name) for name in NAMES]


def test_texts_are_nobody_elses(loaded: list[Domain]) -> None:
    """A text stands for one topic or level only."""
    seen: dict[str, str] = {}
    for domain in loaded:
        groups = [(topic.key, topic.lines) for group in domain.topics for topic in group.topics]
        groups += [
            (f"{domain.name} level {place}", level.lines)
            for scale in domain.scales
            for place, level in enumerate(scale.levels)
        ]
        for key, lines in groups:
            for line in lines:
                assert line not in seen, (line, key, seen.get(line))
                seen[line] = key
    assert len(seen) >= 1800


def test_names_and_meanings_within_a_group_differ(loaded: list[Domain]) -> None:
    for domain in loaded:
        for group in domain.topics:
            for words in (
                [name for topic in group.topics for name in topic.names],
                [topic.meaning for topic in group.topics],
                [topic.clause for topic in group.topics],
                [topic.about for topic in group.topics],
            ):
                assert len(set(words)) == len(words), (domain.name, words)


def test_sentences_end_and_clauses_do_not(loaded: list[Domain]) -> None:
    for domain in loaded:
        if domain.record is None:
            continue
        for fact in domain.record.facts:
            says = fact.says if not isinstance(fact, Flag) else (*fact.yes, *fact.no)
            clauses = (fact.over, fact.under) if isinstance(fact, Number) else (fact.clause, fact.opposite)
            assert fact.ask.endswith("?")
            for said in says:
                assert said.endswith(".") and (said[0].isupper() or said[0] == "{"), said
                assert isinstance(fact, Flag) or said.count("{v}") == 1, said
            for clause in clauses:
                assert not clause.endswith("."), clause
                assert clause[0].islower() or clause.startswith("{"), clause
                assert isinstance(fact, Flag) or clause.count("{v}") == 1, clause


def test_meanings_do_not_repeat_names(loaded: list[Domain]) -> None:
    """A described option is found by its sense: few descriptions share a long word with their name."""
    shared = total = 0
    for domain in loaded:
        pairs = [(topic.names[0], topic.meaning) for group in domain.topics for topic in group.topics]
        if domain.record is not None:
            for fact in domain.record.facts:
                if isinstance(fact, Category):
                    pairs += list(fact.values.items())
        for name, meaning in pairs:
            total += 1
            shared += bool(_long(name) & _long(meaning))
    assert shared / total < 0.06


def _long(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 4}


def test_the_readme_lists_every_domain() -> None:
    readme = (Path(domains.__file__).parent.parent / "README.md").read_text("utf-8")
    assert re.findall(r"^\| `(\w+)` \| ", readme, re.M) == list(NAMES)


def test_kin_name_topics_that_exist(loaded: list[Domain]) -> None:
    keys = {topic.key for domain in loaded for group in domain.topics for topic in group.topics}
    names = {key.partition("/")[0] for key in keys}
    text = (Path(domains.__file__).parent.parent / "kin.txt").read_text("utf-8")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            for key in (part.strip() for part in line.split(",")):
                assert key in keys or (key.endswith("/*") and key[:-2] in names), key


def test_strangers_are_no_kin(loaded: list[Domain]) -> None:
    pool = [group for domain in loaded for group in domain.topics]
    group = next(each for each in pool if each.topics[0].key.startswith("it_helpdesk/"))
    password = next(topic for topic in group.topics if topic.key == "it_helpdesk/password")
    found = {topic.key for topic in strangers(password, group, pool)}
    assert "banking/password" not in found
    assert "gardening/pruning" in found
    assert not any(key.startswith(("it_helpdesk/", "speech_acts/")) for key in found)


@pytest.mark.parametrize(
    ("clause", "question"),
    [
        ("the box is open", "Is the box open?"),
        ("more than 9 guests sit at the table", None),
        ("more than 9 guests are expected", "Are more than 9 guests expected?"),
        ("the flat has a balcony", "Does the flat have a balcony?"),
        ("last night's backup has failed", "Has last night's backup failed?"),
        ("no receipt is attached", None),
        ("the goat does not eat", None),
        ("the guest asks what is in the food", None),
        ("the animal is giving birth or has young", None),
        ("the same thing has never happened before", "Has the same thing never happened before?"),
    ],
)
def test_clauses_become_questions(clause: str, question: str | None) -> None:
    assert inverted(clause) == question


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("hello", "line 1: 'hello' is neither a section nor a phrase"),
        ("- a text", "line 1: a text before any entry"),
        ("topics mail said: What?\n@ one | two", "needs four parts"),
        ("scale mail: How?\nturn: How not?\n@ low\n- a\n- b\n- c", "needs three levels"),
        ("record box B-#\nopen: A box.", "a record needs four facts and three outcomes"),
        ("category kind: Which?\nsay: It is {v}.", "needs three values"),
        ("outcomes\n= a: b\n= a: c", "is no new pair"),
    ],
)
def test_a_fault_is_told_with_its_line(text: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "faulty.txt"
    path.write_text(text, "utf-8")
    with pytest.raises(PhraseError, match=re.escape(fault)) as told:
        read_domain(path)
    assert str(told.value).startswith("faulty.txt, line ")
