"""Lessons: they come back from a file as they were, and a forward shows each token what it may see."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.adapter.lessons import (
    MOST_PREFIX,
    MOST_QUESTIONS,
    Forward,
    Lesson,
    Question,
    cut,
    forwards,
    read,
    write,
)


@st.composite
def lesson(draw: st.DrawFn) -> Lesson:
    """A lesson whose tokens are all different numbers, so that each tells its place."""
    begun = draw(st.integers(1, 9))
    number = iter(range(1, 10_000))
    prefix = tuple(next(number) for _ in range(begun))
    questions = []
    for _ in range(draw(st.integers(1, 10))):
        tail = tuple(next(number) for _ in range(draw(st.integers(4, 9))))
        end = begun + len(tail)
        spans = ((0, begun), (begun, begun + 2), (begun + 2, begun + 3), (begun + 3, end))
        questions.append(Question(tail, spans, draw(st.sampled_from(("noul", "choice", "score"))), 0))
    return Lesson(prefix, tuple(questions))


lessons = st.lists(lesson(), min_size=1, max_size=5)


@given(made=lessons)
@settings(max_examples=25)
def test_a_file_gives_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, made: list[Lesson]
) -> None:
    path = tmp_path_factory.mktemp("lessons") / "made.lessons"
    write(path, made)
    assert read(path) == made


@given(lessons, st.integers(20, 400))
def test_every_question_is_in_one_forward_and_its_spans_are_its_tokens(made: list[Lesson], most: int) -> None:
    found = list(forwards(made, most))
    asked = [question for each in found for question in each.questions]
    assert sorted(asked, key=str) == sorted((q for each in made for q in each.questions), key=str)
    for each in found:
        rows, width = each.tokens.shape
        assert rows == 1 or rows * width <= most
        spans = iter(each.spans.tolist())
        for question in each.questions:
            row, first, end = next(spans)
            prefix = each.tokens[row, first:end].tolist()
            for begun, stop in question.spans[1:]:
                row, first, end = next(spans)
                whole = [*prefix, *question.tail]
                assert each.tokens[row, first:end].tolist() == whole[begun:stop]


@given(lessons)
def test_a_token_sees_what_stands_before_it_in_its_own_prompt(made: list[Lesson]) -> None:
    for each in forwards(made, 300):
        for row, question, places in _prompts(each):
            seen = each.visible[row, 0]
            order = each.places[row, places].tolist()
            # Positions go on as in a prompt of its own, whatever stands between.
            assert order == list(range(len(places)))
            for count, place in enumerate(places):
                expected = set(places[: count + 1])
                found = set(np.flatnonzero(seen[place]).tolist())
                assert found == expected, question


def _prompts(given: Forward) -> list[tuple[int, Question, list[int]]]:
    """Each question with its row and with the places of the tokens of its prompt."""
    found = []
    spans = given.spans.tolist()
    for question in given.questions:
        mine, spans = spans[: len(question.spans)], spans[len(question.spans) :]
        row, first, end = mine[0]
        start = mine[1][1]
        found.append((row, question, [*range(first, end), *range(start, start + len(question.tail))]))
    return found


def test_long_states_are_left_out_and_many_questions_are_cut() -> None:
    question = Question((1, 2), ((0, 1), (1, 2), (2, 3)), "choice", 0)
    long = Lesson((7,) * (MOST_PREFIX + 1), (question,))
    many = Lesson((7,), (question,) * (2 * MOST_QUESTIONS + 1))
    assert [len(each.questions) for each in cut([long, many])] == [MOST_QUESTIONS, MOST_QUESTIONS, 1]
