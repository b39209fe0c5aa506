"""What a fitted temperature may change: how sure an answer is, never which option comes before which."""

import math
from collections.abc import Sequence

import scripted
from hypothesis import assume, given
from hypothesis import strategies as st

from dicast_server.calibration.table import MAX_TEMPERATURE, MIN_TEMPERATURE
from dicast_server.decisions.answers import (
    Abstain,
    Answer,
    ChoiceAnswer,
    PredicateAnswer,
    Refused,
    ScoreAnswer,
    Temperature,
    TemperatureSource,
)
from dicast_server.decisions.decision import Decision, PlannedQuestion
from dicast_server.decisions.passes import Prompt, Reading, Reads, Scores
from dicast_server.decisions.questions import Choice, Level, Option, Predicate, Question, QuestionType, Score
from dicast_server.decisions.types import CHOICE, PREDICATE, SCORE, AnswerType
from dicast_server.readouts.scores import softmax

_TEMPERATURES = st.floats(MIN_TEMPERATURE, MAX_TEMPERATURE)
_SCORES = st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=10)


def answer(
    values: Sequence[float],
    temperature: float,
    offset: float = 0.0,
    type_: QuestionType | None = None,
    abstain: Abstain | None = None,
) -> Answer:
    """The answer to a question whose options have these scores."""
    options = tuple(range(len(values)))

    def read() -> Reads:
        (scores,) = yield (Prompt("m", tuple(map(str, options)), options),)
        return Reading(softmax(scores.values, temperature))

    type_ = type_ or Choice(tuple(Option(str(option)) for option in options))
    known: dict[type, AnswerType] = {Predicate: PREDICATE, Choice: CHOICE, Score: SCORE}
    applied = Temperature(temperature, TemperatureSource.FITTED, offset)
    reads = read()
    question = Question(0, "q", None, "?", type_)
    plan = PlannedQuestion(question, known[type(type_)], reads, next(reads), "r", "p", "v", applied)
    decision = Decision([plan], scripted.compile_to_code_points, abstain)
    decision.next_round()
    (found,) = decision.receive(0, Scores(tuple(values), 0.75))
    return found


def true_of(answer: Answer) -> float:
    assert isinstance(answer.kind, PredicateAnswer)
    return answer.kind.probability


@given(_SCORES, _TEMPERATURES)
def test_options_keep_their_ranking(values: list[float], temperature: float) -> None:
    found = answer(values, temperature).kind
    assert isinstance(found, ChoiceAnswer)
    p = found.probabilities
    assert math.fsum(p) == 1.0 or abs(math.fsum(p) - 1.0) < 1e-12
    for low in range(len(p)):
        for high in range(len(p)):
            if values[low] < values[high]:
                assert p[low] <= p[high]
            elif values[low] == values[high]:
                assert p[low] == p[high]
    # Where float64 can tell them apart, the same option is chosen.
    ordered = sorted(values)
    assume((ordered[-1] - ordered[-2]) / temperature > 1e-9)
    assert found.value == str(values.index(ordered[-1]))


@given(
    st.lists(st.tuples(st.floats(-1e4, 1e4), st.floats(-1e4, 1e4)), min_size=2, max_size=2),
    _TEMPERATURES,
    st.floats(-10, 10),
)
def test_predicates_keep_their_ranking_among_each_other(
    pairs: list[tuple[float, float]], temperature: float, offset: float
) -> None:
    one, other = (true_of(answer(pair, temperature, offset, Predicate())) for pair in pairs)
    gaps = [yes - no for yes, no in pairs]
    assert 0.0 <= one <= 1.0
    if gaps[0] < gaps[1] - 1e-6:
        assert one <= other


def test_an_offset_moves_the_logit_of_predicates_alone() -> None:
    found = true_of(answer((1.0, 0.0), 2.0, 0.75, Predicate()))
    assert math.isclose(found, 1 / (1 + math.exp(-(0.5 + 0.75))))
    assert answer((1.0, 0.0), 2.0, 0.75).kind == answer((1.0, 0.0), 2.0).kind


def test_certainty_and_conditions_are_of_the_shifted_probability() -> None:
    # Without the offset it would be 0.5, of which nothing is certain.
    assert true_of(answer((0.0, 0.0), 1.0, 3.0, Predicate(), Abstain(min_confidence=0.9))) > 0.95
    refused = answer((3.0, 0.0), 1.0, -3.0, Predicate(), Abstain(min_confidence=0.1))
    assert isinstance(refused.kind, Refused)
    assert isinstance(refused.kind.would_be, PredicateAnswer)
    assert math.isclose(refused.kind.would_be.probability, 0.5)


def test_an_abstention_tells_what_would_be_the_answer() -> None:
    never = Abstain(min_confidence=1.0)
    levels = Score((Level("low"), Level("high")))
    for type_, kind in ((None, ChoiceAnswer), (levels, ScoreAnswer), (Predicate(), PredicateAnswer)):
        refused = answer((1.0, 0.5), 1.0, 0.0, type_, never).kind
        assert isinstance(refused, Refused)
        assert isinstance(refused.would_be, kind)
        assert refused.would_be == answer((1.0, 0.5), 1.0, 0.0, type_).kind
