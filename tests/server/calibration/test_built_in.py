"""The calibration set that comes with dicast: its form, and that no label, place or length wins by habit."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from importlib import resources
from typing import Any

import pytest

from dicast_server.calibration import built_in
from dicast_server.calibration.fit import MIN_ROWS
from dicast_server.calibration.folds import FOLDS, fold_of

Row = dict[str, Any]
KEYS = ["id", "group", "domain", "state", "question", "expected"]
DOMAINS = {"support", "moderation", "routing", "logs", "relevance", "forms"}
TYPES = {"noul", "choice", "score"}
MOST_WORDS = 125
LEAST_ROWS = 240


def read() -> list[Row]:
    """The rows; a key that occurs twice is an error."""
    text = (resources.files("dicast_server.calibration") / "questions.jsonl").read_text("utf-8")
    return [json.loads(line, object_pairs_hook=_once) for line in text.splitlines()]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({k for k, _ in pairs}) != len(pairs):
        raise ValueError(f"a key occurs twice: {[k for k, _ in pairs]}")
    return dict(pairs)


def kind(row: Row) -> str:
    return str(row["question"]["type"])


def options(row: Row) -> list[str]:
    """What the answers are called, in their order: true and false, names, or level numbers."""
    criteria = row["question"].get("criteria")
    if kind(row) == "noul":
        return ["true", "false"]
    return list(criteria) if kind(row) == "choice" else [str(i) for i in range(len(criteria))]


def place(row: Row) -> int:
    """The position of the expected answer among the options."""
    if kind(row) == "noul":
        return 0 if row["expected"] else 1
    return options(row).index(row["expected"]) if kind(row) == "choice" else row["expected"]


def text(state: Any) -> str:
    return state if isinstance(state, str) else json.dumps(state, ensure_ascii=False)


def words(state: Any) -> int:
    """Words as a reader counts them; of JSON its keys and values, without the signs."""
    return len(re.findall(r"[\w.'%-]*\w[\w.'%-]*", text(state)))


def of(rows: list[Row], name: str) -> list[Row]:
    return [row for row in rows if kind(row) == name]


def form(rows: list[Row]) -> list[str]:
    """Keys, types and the form of the criteria."""
    faults = []
    for row in rows:
        at = row.get("id", "?")
        if list(row) != KEYS:
            faults.append(f"{at}: keys {list(row)}")
            continue
        question, state = row["question"], row["state"]
        if row["domain"] not in DOMAINS:
            faults.append(f"{at}: domain {row['domain']}")
        if not (isinstance(state, (str, dict)) and state):
            faults.append(f"{at}: the state is neither a text nor an object")
        if not set(question) <= {"type", "instructions", "criteria"} or question.get("type") not in TYPES:
            faults.append(f"{at}: question {sorted(question)} {question.get('type')}")
            continue
        if not (isinstance(question.get("instructions"), str) and question["instructions"].strip()):
            faults.append(f"{at}: no instructions")
        faults += [f"{at}: {fault}" for fault in _criteria(question)]
    return faults


def _criteria(question: dict[str, Any]) -> list[str]:
    match question["type"]:
        case "noul":
            return _of_predicate(question["criteria"]) if "criteria" in question else []
        case "choice":
            return _of_choice(question.get("criteria"))
        case _:
            return _of_score(question.get("criteria"))


def _of_predicate(criteria: Any) -> list[str]:
    told = isinstance(criteria, dict) and set(criteria) == {"true", "false"}
    return [] if told and all(map(_text, criteria.values())) else ["criteria of a predicate"]


def _of_choice(criteria: Any) -> list[str]:
    if not (isinstance(criteria, dict) and 2 <= len(criteria) <= 12):
        return ["a choice has 2 to 12 options"]
    told = [each for each in criteria.values() if each is not None]
    found = []
    if not all(_text(name) and name == name.strip() for name in criteria):
        found.append("an option's name")
    if not all(map(_text, told)):
        found.append("an option's description")
    if len(set(told)) != len(told) or len({name.lower() for name in criteria}) != len(criteria):
        found.append("two options are alike")
    return found


def _of_score(criteria: Any) -> list[str]:
    if not (isinstance(criteria, list) and 2 <= len(criteria) <= 6 and all(map(_text, criteria))):
        return ["a score has 2 to 6 described levels"]
    return [] if len(set(criteria)) == len(criteria) else ["two levels are alike"]


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def ids(rows: list[Row]) -> list[str]:
    """Ids occur once; a group lies in one domain."""
    faults = [f"{i}: {n} times" for i, n in Counter(row["id"] for row in rows).items() if n > 1]
    homes = defaultdict(set)
    for row in rows:
        homes[row["group"]].add(row["domain"])
    return faults + [f"group {g}: domains {sorted(d)}" for g, d in homes.items() if len(d) > 1]


def expected(rows: list[Row]) -> list[str]:
    """The expected answer is one of the question's."""
    faults = []
    for row in rows:
        want = row["expected"]
        if kind(row) == "noul":
            good = isinstance(want, bool)
        elif kind(row) == "choice":
            good = isinstance(want, str) and want in row["question"]["criteria"]
        else:
            good = type(want) is int and 0 <= want < len(row["question"]["criteria"])
        if not good:
            faults.append(f"{row['id']}: expected {want!r}")
    return faults


def sizes(rows: list[Row]) -> list[str]:
    """Enough rows of each domain, type, number of options and number of levels."""
    faults = [] if len(rows) >= LEAST_ROWS else [f"{len(rows)} rows"]
    for (domain, name), least in {
        (d, t): n for d in DOMAINS for t, n in (("noul", 14), ("choice", 13), ("score", 6))
    }.items():
        have = sum(row["domain"] == domain and kind(row) == name for row in rows)
        if have < least:
            faults.append(f"{domain}: {have} of type {name}")
    for name, span, least in (("choice", range(2, 13), 5), ("score", range(2, 7), 6)):
        have = Counter(len(options(row)) for row in of(rows, name))
        faults += [f"{name} of {n}: {have[n]} rows" for n in span if have[n] < least]
    share = sum(isinstance(row["state"], dict) for row in rows) / max(1, len(rows))
    if not 0.27 <= share <= 0.40:
        faults.append(f"{share:.0%} of the states are objects")
    return faults


def predicates(rows: list[Row]) -> list[str]:
    """Half of the predicates are true, in every domain; so they are, with and without criteria."""
    faults = []
    for domain in sorted({row["domain"] for row in rows}):
        count = Counter(row["expected"] for row in of(rows, "noul") if row["domain"] == domain)
        if count[True] != count[False]:
            faults.append(f"{domain}: {count[True]} true, {count[False]} false")
    for told in (True, False):
        count = Counter(
            row["expected"] for row in of(rows, "noul") if ("criteria" in row["question"]) is told
        )
        if abs(count[True] - count[False]) > 0.1 * count.total():
            faults.append(f"criteria {told}: {count[True]} true, {count[False]} false")
    return faults


def levels(rows: list[Row]) -> list[str]:
    """Of each number of levels, every level is right equally often, but for one."""
    return _even(of(rows, "score"), "score")


def places(rows: list[Row]) -> list[str]:
    """Of each number of options, every position is right equally often, but for one."""
    return _even(of(rows, "choice"), "choice")


def _even(rows: list[Row], name: str) -> list[str]:
    count: dict[int, Counter[int]] = defaultdict(Counter)
    for row in rows:
        count[len(options(row))][place(row)] += 1
    faults = []
    for size, those in sorted(count.items()):
        often = [those[i] for i in range(size)]
        if max(often) - min(often) > 1:
            faults.append(f"{name} of {size}: {often}")
    return faults


def names(rows: list[Row]) -> list[str]:
    """No name wins by habit: none is right more than twice. None looks like a label, or a number."""
    wins = Counter(str(row["expected"]).lower() for row in of(rows, "choice"))
    faults = [f"'{name}' is right {n} times" for name, n in wins.items() if n > 2]
    for row in of(rows, "choice"):
        # a prompt that labels the options with letters would have two meanings
        faults += [
            f"{row['id']}: '{n}' looks like a label"
            for n in options(row)
            if re.fullmatch(r"(.* )?[A-Za-z]", n)
        ]
        # JavaScript would move these to the front
        faults += [f"{row['id']}: '{n}' is a whole number" for n in options(row) if n.isdigit()]
    return faults


def lengths(rows: list[Row]) -> list[str]:
    """By its length the right option is found no better, and no worse, than by chance."""
    told = [(rank, row) for row in of(rows, "choice") if (rank := _rank(row)) is not None]
    mean = sum(rank for rank, _ in told) / max(1, len(told))
    faults = [] if 0.42 <= mean <= 0.58 else [f"mean rank of the right option's length: {mean:.2f}"]
    chance = sum(1 / len(options(row)) for _, row in told)
    for name, end in (("longest", 1), ("shortest", 0)):
        have = sum(rank == end for rank, _ in told)
        if not 0.5 * chance <= have <= 1.5 * chance:
            faults.append(f"the right option is the {name} in {have} rows, by chance it were {chance:.0f}")
    return faults


def _rank(row: Row) -> float | None:
    """Where the right option's length lies among all: 0 the shortest, 1 the longest; ties in between."""
    long = {n: len(n) + len(d or "") for n, d in row["question"]["criteria"].items()}
    own = long[row["expected"]]
    others = [v for n, v in long.items() if n != row["expected"]]
    if len(set(long.values())) == 1:
        return None
    return sum((v < own) + 0.5 * (v == own) for v in others) / len(others)


def states(rows: list[Row]) -> list[str]:
    """States are short enough; one state has one group, and a group has three rows at most."""
    faults = [f"{row['id']}: {n} words" for row in rows if (n := words(row["state"])) > MOST_WORDS]
    homes = defaultdict(set)
    for row in rows:
        homes[" ".join(text(row["state"]).lower().split())].add(row["group"])
    faults += [f"one state in {sorted(g)}" for g in homes.values() if len(g) > 1]
    count = Counter(row["group"] for row in rows)
    faults += [f"group {g}: {n} rows" for g, n in count.items() if n > 3]
    asked = Counter((row["group"], row["question"]["instructions"]) for row in rows)
    return faults + [f"asked twice: {a}" for a, n in asked.items() if n > 1]


def letters(rows: list[Row]) -> list[str]:
    """Plain characters alone: ASCII, without tabs and stray spaces."""
    faults = []
    for row in rows:
        whole = json.dumps([row["state"], row["question"]], ensure_ascii=False)
        if not whole.isascii():
            faults.append(f"{row['id']}: {sorted(set(whole) - set(map(chr, range(128))))}")
        for part in (text(row["state"]), row["question"]["instructions"]):
            if part != part.strip() or "\t" in part:
                faults.append(f"{row['id']}: white space")
    return faults


CHECKS = [form, ids, expected, sizes, predicates, levels, places, names, lengths, states, letters]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_set_has_no_faults(check: Callable[[list[Row]], list[str]]) -> None:
    assert check(read()) == []


def test_it_is_read_as_any_file_is() -> None:
    dataset = built_in.read()
    assert [each.id for each in dataset.questions] == [row["id"] for row in read()]
    assert [each.label for each in dataset.questions] == [place(row) for row in read()]


def test_every_fold_has_rows_to_hold_out() -> None:
    count = Counter(fold_of(each.group) for each in built_in.read().questions)
    assert len(count) == FOLDS
    assert min(count.values()) > MIN_ROWS // 2
