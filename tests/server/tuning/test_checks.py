"""What labelled questions must be to be learned from, and how they are parted."""

from __future__ import annotations

from pathlib import Path

import labelled_rows
import pytest
from hypothesis import given
from hypothesis import strategies as st
from labelled_rows import Row

from dicast_server.calibration.labelled import LabelledQuestion, read_row
from dicast_server.tuning.checks import NotLearnable, check
from dicast_server.tuning.parts import JUDGED, STOPPING, part


def test_rows_that_say_the_same_are_learned_once(tmp_path: Path) -> None:
    rows = labelled_rows.rows(30)
    again = [{**row, "id": f"again {row['id']}"} for row in rows[:6]]
    checked = check(labelled_rows.read(tmp_path, [*rows, *again]))
    assert (len(checked.questions), checked.repeated) == (90, 6)


def test_two_answers_to_one_question_are_told_with_their_lines(tmp_path: Path) -> None:
    rows = labelled_rows.rows(30)
    other: Row = {**rows[0], "id": "other", "expected": not rows[0]["expected"]}
    with pytest.raises(NotLearnable, match="line 91 contradicts line 1"):
        check(labelled_rows.read(tmp_path, [*rows, other]))


def test_an_object_and_the_text_of_it_are_two_states(tmp_path: Path) -> None:
    rows = labelled_rows.rows(30)
    text: Row = {
        **rows[0],
        "id": "text",
        "state": '{"parcel": 0, "weight": 1.0}',
        "expected": not rows[0]["expected"],
    }
    assert rows[0]["state"] == {"parcel": 0, "weight": 1.0}
    assert len(check(labelled_rows.read(tmp_path, [*rows, text])).questions) == 91


def test_few_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotLearnable, match="48 different questions are too few: 50"):
        check(labelled_rows.read(tmp_path, labelled_rows.rows(16)))


@pytest.mark.parametrize(
    ("place", "expected", "told"),
    [(0, True, "predicate has the same answer, true"), (1, "billing", "'billing'"), (2, 1, "level 1")],
)
def test_a_type_with_one_answer_is_refused(tmp_path: Path, place: int, expected: object, told: str) -> None:
    rows = [
        {**row, "expected": expected if row["id"][-1] == "abc"[place] else row["expected"]}
        for row in labelled_rows.rows(30)
    ]
    with pytest.raises(NotLearnable, match=told):
        check(labelled_rows.read(tmp_path, rows))


def questions(sizes: list[int]) -> list[LabelledQuestion]:
    row = labelled_rows.rows(1)[0]
    from dicast import jsontext

    made = []
    for group, size in enumerate(sizes):
        for number in range(size):
            text = f'{{"id": "{group}.{number}", "group": "g{group}", "state": "s{group}", '
            text += f'"question": {{"type": "noul", "instructions": "q{number}"}}, "expected": true}}'
            made.append(read_row(jsontext.parse(text), 1))
    assert row
    return made


@given(st.lists(st.integers(1, 4), min_size=30, max_size=120), st.randoms(use_true_random=False))
def test_groups_stay_whole_whatever_the_order_of_the_rows(sizes: list[int], random: object) -> None:
    given_ = questions(sizes)
    parts = part(given_)
    held = [{each.group for each in one} for one in (parts.learned, parts.stopping, parts.judged)]
    assert not held[0] & held[1] and not held[1] & held[2] and not held[0] & held[2]
    assert sorted(each.id for one in (parts.learned, parts.stopping, parts.judged) for each in one) == sorted(
        each.id for each in given_
    )
    shuffled = list(given_)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    again = part(shuffled)
    assert {each.id for each in again.judged} == {each.id for each in parts.judged}
    assert {each.id for each in again.stopping} == {each.id for each in parts.stopping}
    assert 0 <= len(parts.stopping) - STOPPING * len(given_) < 8
    assert 0 <= len(parts.judged) - JUDGED * len(given_) < 8


def test_too_few_groups_are_refused() -> None:
    with pytest.raises(NotLearnable, match="of 3 groups, too few to hold some out"):
        part(questions([20, 20, 20]))
