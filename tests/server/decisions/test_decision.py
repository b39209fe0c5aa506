"""Questions of several rounds: what each round asks, and that each of its passes is checked."""

from collections.abc import Sequence

import pytest
import scripted
from hypothesis import given
from hypothesis import strategies as st

from dicast_server.decisions.answers import (
    Abstain,
    Answer,
    PassDiagnostics,
    PredicateAnswer,
    Refused,
    Skipped,
    Temperature,
    TemperatureSource,
)
from dicast_server.decisions.decision import Decision, PlannedQuestion
from dicast_server.decisions.passes import Pass, Prompt, Reading, Reads
from dicast_server.decisions.questions import Condition, Outcome, Predicate, Question
from dicast_server.decisions.stages import find_cycle
from dicast_server.decisions.types import PREDICATE


class TooLongError(Exception):
    pass


def asking(messages: Sequence[str], true: float) -> Reads:
    """Asks one prompt a round."""
    for message in messages:
        yield (Prompt(message, ("A", "B"), (0, 1)),)
    return Reading((true, 1 - true))


def planned(
    index: int, *messages: str, ask_if: Sequence[Condition] = (), true: float = 0.5
) -> PlannedQuestion:
    source = Temperature(1.0, TemperatureSource.DEFAULT)
    question = Question(index, f"q{index}", None, "?", Predicate(), tuple(ask_if))
    reads = asking(messages, true)
    return PlannedQuestion(question, PREDICATE, reads, next(reads), "scripted", "none", "v", source)


def compile_short(asked: Sequence[tuple[Question, Prompt]]) -> list[Pass]:
    for question, prompt in asked:
        if len(prompt.message) > 5:
            raise TooLongError(question.key)
    return scripted.compile_to_code_points(asked)


def passes_of(answer: Answer) -> Sequence[PassDiagnostics]:
    assert answer.diagnostics is not None
    return answer.diagnostics.passes


def test_questions_go_through_their_rounds_side_by_side() -> None:
    plans = [planned(0, "a", "b", "c"), planned(1, "d"), planned(2, "e", "f")]
    decided = scripted.answer_all(Decision(plans, compile_short))
    assert decided.rounds == [["a", "d", "e"], ["b", "f"], ["c"]]
    assert [len(passes_of(answer)) for answer in decided.answers] == [3, 1, 2]


def test_a_first_round_is_checked_before_it_starts() -> None:
    decision = Decision([planned(0, "a"), planned(1, "abcdef")], compile_short)
    with pytest.raises(TooLongError, match="q1"):
        decision.prepare()


def test_a_later_round_is_checked_as_well() -> None:
    decision = Decision([planned(0, "a", "abcdef"), planned(1, "b")], compile_short)
    for index, pass_ in enumerate(decision.next_round()):
        decision.receive(index, scripted.scores_of(pass_))
    with pytest.raises(TooLongError, match="q0"):
        decision.next_round()


YES, NO = Outcome("bool", True), Outcome("bool", False)


def when(question: int, *outcomes: Outcome) -> Condition:
    return Condition(question, outcomes)


def test_a_question_waits_for_those_that_it_depends_on_and_is_skipped_where_they_fail() -> None:
    plans = [
        planned(0, "c", ask_if=[when(2, YES)]),
        planned(1, "x", "y", true=0.2),
        planned(2, "a", true=0.9),
        planned(3, "d", ask_if=[when(2, YES), when(1, YES)]),
        planned(4, "e", ask_if=[when(3, YES, NO)]),
        planned(5, "f", ask_if=[when(1, NO)]),
    ]
    decided = scripted.decide(plans)
    # What waits for one that is done does not wait for the others of its round.
    assert decided.rounds == [["x", "a"], ["c", "y"], ["f"]]
    kinds = [answer.kind for answer in decided.answers]
    assert kinds[0] == PredicateAnswer(0.5)
    assert kinds[3] == Skipped("q1", NO)
    assert kinds[4] == Skipped("q3", None)
    assert isinstance(kinds[5], PredicateAnswer)
    assert decided.answers[3].diagnostics is None


def test_a_refused_question_satisfies_no_condition() -> None:
    plans = [planned(0, "a", true=0.6), planned(1, "b", ask_if=[when(0, YES, NO)])]
    decided = scripted.decide(plans, Abstain(min_confidence=0.5))
    assert isinstance(decided.answers[0].kind, Refused)
    assert decided.answers[1].kind == Skipped("q0", None)


def test_questions_that_wait_are_checked_before_anything_is_read() -> None:
    decision = Decision([planned(0, "a"), planned(1, "abcdef", ask_if=[when(0, YES)])], compile_short)
    with pytest.raises(TooLongError, match="q1"):
        decision.prepare()


def test_an_outcome_is_compared_with_its_kind() -> None:
    assert Outcome("bool", True) != Outcome("level", 1)
    assert Outcome("string", "true") != Outcome("bool", True)


@given(st.data())
def test_every_question_is_answered_or_skipped_once_whatever_waits_for_what(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 8))
    order = data.draw(st.permutations(range(count)))
    plans: list[PlannedQuestion] = []
    for index in range(count):
        earlier = [other for other in range(count) if order.index(other) < order.index(index)]
        on = data.draw(st.lists(st.sampled_from(earlier), unique=True, max_size=3)) if earlier else []
        outcomes = st.lists(st.sampled_from([YES, NO]), min_size=1, unique=True)
        conditions = [when(other, *data.draw(outcomes)) for other in on]
        plans.append(planned(index, "m", ask_if=conditions, true=data.draw(st.sampled_from([0.1, 0.9]))))
    assert not find_cycle([plan.question for plan in plans])
    decided = scripted.decide(plans)
    assert [answer.question.index for answer in decided.answers] == list(range(count))
    came_out = {
        a.question.index: Outcome("bool", a.kind.probability >= 0.5)
        for a in decided.answers
        if isinstance(a.kind, PredicateAnswer)
    }
    for answer in decided.answers:
        holds = all(came_out.get(c.question) in c.any_of for c in answer.question.ask_if)
        assert holds == isinstance(answer.kind, PredicateAnswer)


def test_a_circle_is_found_with_what_waits_for_it() -> None:
    def question(index: int, *on: int) -> Question:
        conditions = tuple(when(other, YES) for other in on)
        return Question(index, f"q{index}", None, "?", Predicate(), conditions)

    circle = [question(0), question(1, 2), question(2, 1), question(3, 2), question(4, 0)]
    assert [each.index for each in find_cycle(circle)] == [1, 2, 3]
    assert [each.index for each in find_cycle([question(0, 0)])] == [0]
