"""From labelled questions to lessons: the prompts that are served, and nothing that cannot be read."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import labelled_rows
import numpy as np
import pytest
import tiny_server
from tiny_server import REGISTRY

from dicast_server.engine.learning.reading import Read
from dicast_server.readouts.profile import STOCK
from dicast_server.service.requests import AskedQuestion, DecisionRequest
from dicast_server.tuning import lessons
from dicast_server.tuning.judging import predictions
from dicast_server.tuning.lessons import CannotBeRead, Classroom, reordered


def classroom(**profile: Any) -> Classroom:
    return Classroom(tiny_server.load_tiny(replace(STOCK, **profile)).planner(REGISTRY))


def test_lessons_are_the_prompts_that_are_served(tmp_path: Path) -> None:
    room = classroom()
    questions = labelled_rows.read(tmp_path, labelled_rows.rows(4))
    made = room.lessons(questions)
    assert (len(made.lessons), made.rows, made.left_out) == (4, 12, ())
    assert [row.question.id for row in made.planned] == [question.id for question in questions]
    rows = iter(made.planned)
    for lesson in made.lessons:
        for example in lesson.examples:
            row = next(rows)
            asked = AskedQuestion(row.question.question)
            work = room.planner.plan(DecisionRequest(row.question.state, (asked,)))
            (pass_,) = work.rounds.next_round()
            assert pass_.tokens == (*lesson.prefix, *example.tail)
            assert pass_.labels == example.labels
            assert row.options[example.right] == row.question.label


def test_questions_about_one_state_share_it_up_to_a_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = labelled_rows.read(tmp_path, labelled_rows.rows(2))
    whole = classroom().lessons(questions)
    monkeypatch.setattr(lessons, "LESSON_TOKENS", whole.lessons[0].size - 1)
    cut = classroom().lessons(questions)
    assert [len(lesson.examples) for lesson in cut.lessons] == [2, 1, 3]
    assert max(lesson.size for lesson in cut.lessons) < whole.lessons[0].size
    monkeypatch.setattr(lessons, "LESSON_TOKENS", 1)
    assert [len(lesson.examples) for lesson in classroom().lessons(questions).lessons] == [1] * 6


def test_what_is_too_long_is_left_out_with_its_line(tmp_path: Path) -> None:
    rows = labelled_rows.rows(3)
    rows[3]["state"] = "word " * 4000
    made = classroom().lessons(labelled_rows.read(tmp_path, rows))
    assert made.rows == 8
    (left,) = made.left_out
    assert left.line == 4
    assert "tokens and at most" in left.reason


@pytest.mark.parametrize(
    ("profile", "told"),
    [
        ({"correct_prior": True}, "line 1: the readout letters reads 2 prompts"),
        ({"readout": "candidates", "settings": (("scoring", "sequence"),)}, "reads whole replies"),
    ],
)
def test_a_readout_that_reads_more_than_labels_is_refused(
    tmp_path: Path, profile: dict[str, Any], told: str
) -> None:
    with pytest.raises(CannotBeRead, match=told):
        classroom(**profile).lessons(labelled_rows.read(tmp_path, labelled_rows.rows(1)))


def test_direct_labels_can_be_learned(tmp_path: Path) -> None:
    made = classroom(readout="direct").lessons(labelled_rows.read(tmp_path, labelled_rows.rows(3)))
    assert made.rows == 9


def test_another_order_has_the_same_right_answer(tmp_path: Path) -> None:
    for question in labelled_rows.read(tmp_path, labelled_rows.rows(4)):
        other = reordered(question, random.Random(1))
        if question.kind != "choice":
            assert other == question
            continue
        before, after = question.question.type.options, other.question.type.options  # type: ignore[union-attr]
        assert sorted(map(str, before)) == sorted(map(str, after))
        assert after[other.label] == before[question.label]


def test_predictions_are_in_the_questions_order(tmp_path: Path) -> None:
    made = classroom().lessons(labelled_rows.read(tmp_path, labelled_rows.rows(1)))
    reads = [Read(np.log(np.arange(1, row.question.options + 1)), 1.0) for row in made.planned]
    for row, prediction in zip(made.planned, predictions(made.planned, reads), strict=True):
        assert sum(prediction.probabilities) == pytest.approx(1.0)
        assert prediction.probabilities[row.options[-1]] == max(prediction.probabilities)
        assert (prediction.id, prediction.label) == (row.question.id, row.question.label)
