"""Questions of several rounds: what each round asks, and that each of its passes is checked."""

import pytest
import scripted

from dicast_server.decisions.answers import Temperature, TemperatureSource
from dicast_server.decisions.decision import Decision, PlannedQuestion
from dicast_server.decisions.passes import Pass, Prompt, Reading, Reads
from dicast_server.decisions.questions import Predicate, Question


class TooLongError(Exception):
    pass


def asking(*messages: str) -> Reads:
    """Asks one prompt a round."""
    for message in messages:
        yield (Prompt(message, ("A", "B"), (0, 1)),)
    return Reading((0.5, 0.5))


def planned(index: int, *messages: str) -> PlannedQuestion:
    source = Temperature(1.0, TemperatureSource.DEFAULT)
    question = Question(index, f"q{index}", None, "?", Predicate())
    return PlannedQuestion(question, asking(*messages), "scripted", "none", "v", source)


def check(question: Question, pass_: Pass) -> None:
    if len(pass_.tokens) > 5:
        raise TooLongError(question.key)


def test_questions_go_through_their_rounds_side_by_side() -> None:
    plans = [planned(0, "a", "b", "c"), planned(1, "d"), planned(2, "e", "f")]
    answers, rounds = scripted.answer_all(Decision(plans, scripted.compile_to_code_points, check=check))
    assert rounds == [["a", "d", "e"], ["b", "f"], ["c"]]
    assert [len(answer.diagnostics.passes) for answer in answers] == [3, 1, 2]


def test_a_first_round_is_checked_before_it_starts() -> None:
    decision = Decision([planned(0, "a"), planned(1, "abcdef")], scripted.compile_to_code_points, check=check)
    with pytest.raises(TooLongError, match="q1"):
        decision.prepare()


def test_a_later_round_is_checked_as_well() -> None:
    decision = Decision(
        [planned(0, "a", "abcdef"), planned(1, "b")], scripted.compile_to_code_points, check=check
    )
    for index, pass_ in enumerate(decision.next_round()):
        decision.receive(index, scripted.scores_of(pass_))
    with pytest.raises(TooLongError, match="q0"):
        decision.next_round()
