"""The passages: what their files hold, what a faulty one is told, and what is asked about them."""

import json
from collections import Counter
from pathlib import Path

import pytest

from dicast_server.calibration.dataset import read_dataset
from training import passages
from training.case import Case
from training.generate import main, passage_cases, write
from training.passage import Field, read_field
from training.reading import PhraseError

HEAD = "ask: Which one?\n@ a: the first\n@ b: the second\n"
WHOLE = (
    f"{HEAD}= [a] One two\\nthree.\n+ It is.\n+ Is it?\n- It is not.\n- Was it?\n"
    "? Which? | x | *y\n% How? | low | *high\n"
)


@pytest.fixture(scope="module")
def fields() -> list[Field]:
    return [passages.load(name) for name in passages.names()]


@pytest.fixture(scope="module")
def made() -> list[Case]:
    return list(passage_cases(3, passages.names()))


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(WHOLE, "utf-8")
    field = read_field(path)
    (passage,) = field.passages
    assert (field.name, field.asks, dict(field.categories)) == (
        "mine",
        ("Which one?",),
        {"a": "the first", "b": "the second"},
    )
    assert passage.text == "One two\nthree."
    assert (passage.true, passage.false) == (("It is.", "Is it?"), ("It is not.", "Was it?"))
    assert (passage.choices[0].options, passage.choices[0].right) == (("x", "y"), 1)
    assert (passage.scales[0].options, passage.scales[0].right) == (("low", "high"), 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("= [a]", "= [c]"), "line 4: a passage begins"),
        (("= [a]", "= a"), "line 4: a passage begins"),
        (("@ b: the second", "@ a: the second"), "line 3: no new category"),
        (("+ It is.", "* It is."), "line 5: begins with none of"),
        (("| x | *y", "| x | y"), "line 9: needs two different options"),
        (("| x | *y", "| y | *y"), "line 9: needs two different options"),
        (("- Was it?\n", ""), "line 4: a passage needs two claims"),
        ((HEAD, f"{HEAD}+ Too early.\n"), "line 4: stands before the first passage"),
        (("ask: Which one?\n", ""), "line 0: a field needs"),
    ],
)
def test_a_faulty_file_is_told_where(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(WHOLE.replace(*change), "utf-8")
    with pytest.raises(PhraseError, match=f"mine.txt, {said}"):
        read_field(path)


def test_fields_are_many_and_no_text_comes_twice(fields: list[Field]) -> None:
    texts = Counter(passage.text for field in fields for passage in field.passages)
    assert len(fields) >= 60
    assert len(texts) >= 840
    assert set(texts.values()) == {1}
    for field in fields:
        used = Counter(passage.category for passage in field.passages)
        assert set(used) == set(field.categories)


def test_no_habit_of_claims_gives_the_answer_away(fields: list[Field]) -> None:
    """True and false claims are as long, as often questions and as often negated."""
    both: list[list[str]] = [[], []]
    for field in fields:
        for passage in field.passages:
            both[0] += passage.true
            both[1] += passage.false
    true, false = both
    assert 0.95 < len(true) / len(false) < 1.1
    words = [sum(len(claim.split()) for claim in claims) / len(claims) for claims in both]
    assert abs(words[0] - words[1]) < 1
    for mark in (lambda claim: claim.endswith("?"), lambda claim: " no" in claim.lower()):
        shares = [sum(map(mark, claims)) / len(claims) for claims in both]
        assert abs(shares[0] - shares[1]) < 0.1


def test_every_passage_is_asked_about_once_and_each_row_is_labelled(made: list[Case], tmp_path: Path) -> None:
    assert len(made) == sum(len(passages.load(name).passages) for name in passages.names())
    path = tmp_path / "made.jsonl"
    rows = write(path, iter(made))
    assert len(read_dataset(path).questions) == rows > 11_000
    forms = Counter(json.loads(line)["form"] for line in path.read_text("utf-8").splitlines())
    assert min(forms.values()) > 500


def test_right_options_stand_anywhere(made: list[Case]) -> None:
    places: Counter[int] = Counter()
    for case in made:
        for each in case.asked:
            if each.kind == "choice" and each.criteria is not None and len(each.criteria) == 4:
                places[list(each.criteria).index(str(each.expected))] += 1
    assert max(places.values()) < 1.2 * min(places.values())


def test_a_seed_gives_the_same_bytes_and_held_out_fields_lend_nothing(tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    arguments = ["--from", "passages", "--cases", "60", "--held-out", "vet_clinic"]
    for path, seed in ((one, "4"), (two, "4"), (three, "5")):
        main([*arguments, "--seed", seed, "--out", str(path)])
    assert one.read_bytes() == two.read_bytes()
    assert one.read_bytes() != three.read_bytes()
    text = one.read_text("utf-8")
    held = passages.load("vet_clinic")
    assert not any(meaning in text for meaning in held.categories.values())


def test_an_unknown_field_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--from", "passages", "--domains", "alchemy"])
    assert "not among the passages: alchemy" in capsys.readouterr().err
