"""The letters readout on scripted scores: prompts to the byte, answers to 1e-12."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import scripted
from hypothesis import given
from hypothesis import strategies as st

from dicast import jsontext
from dicast_server.decisions.answers import (
    Answer,
    ChoiceAnswer,
    PredicateAnswer,
    ScoreAnswer,
    Temperature,
    TemperatureSource,
)
from dicast_server.decisions.decision import Decision, PlannedQuestion
from dicast_server.decisions.passes import Scores
from dicast_server.decisions.questions import Choice, Json, Level, Option, Predicate, Question, Score
from dicast_server.readouts import letters
from dicast_server.readouts.letters import LETTERS, Letters, softmax
from dicast_server.readouts.profile import OPENJEV, STOCK, OptionStyle, Profile, profile_for

CASES = json.loads((Path(__file__).parents[2] / "fixtures/letters.json").read_text())["letters"]
SERVED = [
    "serve_example/bracket",
    "serve_example/plain",
    "dict_state_non_ascii/bracket",
    "list_state/bracket",
    "number_state/bracket",
    "bool_state/bracket",
    "letters_52/bracket",
    "composed_60/bracket",
    "score_12/bracket",
    "score_nonstring_levels/bracket",
]
STYLES = {"bracket": OptionStyle.BRACKET, "plain": OptionStyle.PLAIN}


def decide(
    state: str,
    questions: list[Question],
    profile: Profile = STOCK,
    style: OptionStyle | None = None,
    temperature: float = 1.0,
) -> tuple[list[Answer], list[list[str]]]:
    readout = Letters(state, profile, style)
    source = Temperature(temperature, TemperatureSource.DEFAULT)
    plans = [
        PlannedQuestion(
            q, readout.read(q, temperature), letters.NAME, profile.name, profile.prompt_version, source
        )
        for q in questions
    ]
    return scripted.answer_all(Decision(plans, scripted.compile_to_code_points))


def only_prompt(question: Question, state: str = "s", profile: Profile = STOCK) -> str:
    _, ((text,),) = decide(state, [question], profile)
    return text


def ask(type_: Predicate | Choice | Score, instructions: Any = "Is it?") -> Question:
    return Question(0, "q", None, scripted.content(instructions), type_)


@pytest.mark.parametrize("name", SERVED)
def test_published_cases(name: str) -> None:
    case = CASES[name]
    state = scripted.content(case["request"]["state"])
    assert state is not None
    questions = [
        scripted.system_one_question(index, key, body)
        for index, (key, body) in enumerate(case["request"]["questions"].items())
    ]
    answers, rounds = decide(
        OPENJEV.wording.state(state), questions, OPENJEV, STYLES[name.split("/")[1]], temperature=0.85
    )
    assert rounds == [[prompt["text"] for prompt in passes] for passes in case["rounds"]]
    for answer in answers:
        expected = case["answers"][answer.question.key]
        kind = answer.kind
        if isinstance(kind, PredicateAnswer):
            assert kind.probability == pytest.approx(expected["noul"], abs=1e-12)
            continue
        assert isinstance(kind, ChoiceAnswer | ScoreAnswer)
        assert kind.probabilities == pytest.approx(list(expected["probabilities"].values()), abs=1e-12)
        assert kind.confidence == pytest.approx(expected["confidence"], abs=1e-12)
        if isinstance(kind, ChoiceAnswer):
            assert kind.value == expected["choice"]
        else:
            assert kind.score == pytest.approx(expected["score"], abs=1e-12)


def test_stock_profile_renders_json_everywhere() -> None:
    state = scripted.content({"zeta": 1, "alpha": {"k": [True, None, "é"]}})
    assert state is not None
    text = only_prompt(
        ask(Predicate(scripted.content(["x", 1.0]), None), {"goal": "is it open?"}),
        STOCK.wording.state(state),
    )
    assert text == (
        'State:\n{"zeta": 1, "alpha": {"k": [true, null, "é"]}}\n\n'
        'Question: {"goal": "is it open?"}\nOptions:\n'
        'A) yes: ["x", 1.0]\nB) no: The statement is false.\n\n'
        "Answer with the letter of the best option only."
    )


@pytest.mark.parametrize("description", [None, ""])
@pytest.mark.parametrize(("profile", "line"), [(STOCK, "B) b: \n"), (OPENJEV, "[B] b: \n")])
def test_no_description_leaves_a_colon_and_a_space(
    description: str | None, profile: Profile, line: str
) -> None:
    question = ask(Choice((Option("a", "x"), Option("b", description))))
    assert line in only_prompt(question, profile=profile)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (Predicate("yes", "no"), "Question: Is the statement true?\n"),
        (Choice((Option("a"), Option("b"))), "Question: Which option fits best?\n"),
        (
            Score((Level("a"), Level("b"))),
            "Question: Which level fits best? Rate along the ordered levels below (lowest first).\n",
        ),
    ],
)
def test_absent_instructions_get_a_default_and_empty_ones_do_not(
    type_: Predicate | Choice | Score, text: str
) -> None:
    assert text in only_prompt(ask(type_, None))
    assert "Question: \n" in only_prompt(ask(type_, "")) or "Question:  Rate" in only_prompt(ask(type_, ""))


def test_a_boolean_renders_bare_unless_a_string_looks_the_same() -> None:
    assert "A) true: \nB) no: " in only_prompt(ask(Choice((Option(True), Option("no")))))
    assert 'A) true: \nB) "true": \nC) "é": ' in only_prompt(
        ask(Choice((Option(True), Option("true"), Option("é"))))
    )


def test_levels_show_label_and_description() -> None:
    text = only_prompt(
        ask(Score((Level("low"), Level("high", "very"), Level(None, "alone"), Level("x", ""))))
    )
    assert "A) 0: low\nB) 1: high: very\nC) 2: alone\nD) 3: x\n" in text


def test_equal_levels_keep_their_own_probabilities() -> None:
    (answer,), _ = decide("s", [ask(Score((Level("same"), Level("same"), Level("other"))))])
    assert isinstance(answer.kind, ScoreAnswer)
    assert len(answer.kind.probabilities) == 3
    assert math.fsum(answer.kind.probabilities) == pytest.approx(1, abs=1e-12)


def test_one_sided_criteria_use_the_default_for_the_other_side() -> None:
    one_sided, _ = decide("s", [ask(Predicate("open", None))])
    spelled, _ = decide("s", [ask(Predicate("open", letters.DEFAULT_FALSE))])
    assert one_sided[0].kind == spelled[0].kind


def test_more_options_than_letters_are_refused() -> None:
    with pytest.raises(ValueError, match="2705 options"):
        decide("s", [ask(Choice(tuple(Option(str(n)) for n in range(52 * 52 + 1))))])


@given(st.integers(2, 300))
def test_options_without_letters_enough_are_read_in_even_chunks(count: int) -> None:
    options = Choice(tuple(Option(f"o{n}") for n in range(count)))
    (answer,), rounds = decide("s", [ask(options)])
    chunks = -(-count // 52)
    assert [len(each) for each in rounds] == ([1] if chunks == 1 else [chunks, 1])
    assert isinstance(answer.kind, ChoiceAnswer)
    assert len(answer.kind.probabilities) == count
    assert math.fsum(answer.kind.probabilities) == pytest.approx(1)


@given(st.lists(st.floats(-5, 5), min_size=53, max_size=120))
def test_chunks_change_nothing_where_an_options_score_is_its_own(scores: list[float]) -> None:
    reads = Letters("s", STOCK).read(ask(Choice(tuple(Option(str(n)) for n in range(len(scores))))), 1.0)
    prompts = next(reads)
    reading: Any = None
    try:
        while True:
            prompts = reads.send(
                tuple(Scores(tuple(scores[option] for option in p.options), 1.0) for p in prompts)
            )
    except StopIteration as end:
        reading = end.value
    assert reading.probabilities == pytest.approx(softmax(scores, 1.0), rel=1e-9)


def test_a_score_that_is_not_finite_refuses_its_question_alone() -> None:
    readout = Letters("s", STOCK)
    source = Temperature(1.0, TemperatureSource.DEFAULT)
    plans = [
        PlannedQuestion(
            Question(index, str(index), None, "?", Predicate()),
            readout.read(Question(index, str(index), None, "?", Predicate()), 1.0),
            "letters",
            "stock",
            "v",
            source,
        )
        for index in range(2)
    ]
    decision = Decision(plans, scripted.compile_to_code_points)
    decision.next_round()
    bad = decision.receive(0, Scores((float("nan"), 0.0), 0.5))
    good = decision.receive(1, Scores((1.0, 0.0), 0.5))
    assert bad is not None
    assert good is not None
    assert type(bad.kind).__name__ == "Refused"
    assert isinstance(good.kind, PredicateAnswer)
    assert decision.next_round() == ()


@given(st.lists(st.floats(-50, 50), min_size=2, max_size=52), st.floats(0.05, 20))
def test_softmax_is_a_distribution_in_the_order_of_the_scores(
    scores: list[float], temperature: float
) -> None:
    probabilities = softmax(scores, temperature)
    assert math.fsum(probabilities) == pytest.approx(1, abs=1e-12)
    for (s, p), (t, q) in zip(
        zip(scores, probabilities, strict=True), zip(scores[1:], probabilities[1:], strict=True), strict=False
    ):
        assert (s <= t) == (p <= q) or p == q


@given(
    st.lists(st.floats(-20, 20), min_size=2, max_size=9).filter(
        lambda s: sorted(s)[-1] - sorted(s)[-2] > 1e-3
    )
)
def test_a_higher_temperature_flattens(scores: list[float]) -> None:
    assert max(softmax(scores, 2)) < max(softmax(scores, 1)) < max(softmax(scores, 0.5)) or (
        max(softmax(scores, 0.5)) == 1.0
    )


@given(st.randoms(use_true_random=False), st.integers(2, 6))
def test_order_of_questions_and_their_keys_never_reach_a_prompt(random: Any, count: int) -> None:
    questions = [
        Question(index, f"k{index}", None, f"question {index}", Predicate()) for index in range(count)
    ]
    answers, _ = decide("s", questions)
    shuffled = [
        Question(place, f"other{place}", "n", question.instructions, question.type)
        for place, question in enumerate(random.sample(questions, count))
    ]
    moved, _ = decide("s", shuffled)
    by_text = {answer.question.instructions: answer.kind for answer in moved}
    assert all(by_text[answer.question.instructions] == answer.kind for answer in answers)


@pytest.mark.parametrize(
    ("model_id", "profile"),
    [
        ("openjev", OPENJEV),
        ("openjev-4b", OPENJEV),
        ("smollm2-135m-instruct", STOCK),
        ("my-openjev", STOCK),
        ("models/openjev", STOCK),
    ],
)
def test_a_profile_is_chosen_by_the_models_id(model_id: str, profile: Profile) -> None:
    assert profile_for(model_id) is profile


def test_the_letters() -> None:
    assert "".join(LETTERS) == "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def test_json_content_keeps_its_numbers() -> None:
    question = ask(Choice((Option("a", Json(jsontext.parse("1.0"))), Option("b"))))
    assert "A) a: 1.0\n" in only_prompt(question)
