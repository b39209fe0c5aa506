"""Lessons are the very prompts that a server reads."""

from pathlib import Path

from dicast_server.calibration.dataset import read_dataset
from dicast_server.service.requests import AskedQuestion, DecisionRequest
from training import passages
from training.adapter.base import Base
from training.adapter.planning import lessons
from training.generate import passage_cases, write


def test_a_lesson_has_the_tokens_and_the_spans_of_each_prompt(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write(path, passage_cases(1, passages.names()[:3], 5))
    planner = Base.load().planner()
    made = lessons(planner, path)
    rows = iter(read_dataset(path).questions)
    assert len(made) == 5
    for lesson in made:
        for question in lesson.questions:
            row = next(rows)
            work = planner.plan(DecisionRequest(row.state, (AskedQuestion(row.question),)))
            (pass_,) = work.rounds.next_round()
            assert lesson.prefix + question.tail == pass_.tokens
            assert question.spans == pass_.spans
            assert question.spans[0][1] <= len(lesson.prefix) <= question.spans[1][0]
            assert question.right == row.label
            assert len(question.spans) == 2 + row.options
    assert next(rows, None) is None
