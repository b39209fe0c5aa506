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
from dicast_server.decisions.answers import Answer, ChoiceAnswer, PredicateAnswer, ScoreAnswer, Skipped
from dicast_server.decisions.decision import Decision
from dicast_server.decisions.passes import Prompt, Reading, Reads, Scores
from dicast_server.decisions.questions import (
    Choice,
    Content,
    Json,
    Level,
    Option,
    Outcome,
    Predicate,
    Question,
    Score,
)
from dicast_server.readouts.letters import LETTERS, Letters, LettersSettings
from dicast_server.readouts.profile import OPENJEV, STOCK, OptionStyle, Profile, profile_for
from dicast_server.readouts.scores import shuffled, softmax
from dicast_server.readouts.texts import DEFAULT_FALSE, NO_CONTENT

FIXTURES = json.loads((Path(__file__).parents[2] / "fixtures/letters.json").read_text())
CASES = FIXTURES["letters"]
STYLES = {"bracket": OptionStyle.BRACKET, "plain": OptionStyle.PLAIN}


def letters(state: Content, profile: Profile = STOCK, **settings: Any) -> Letters:
    return Letters(state, scripted.model(profile), LettersSettings(**settings))


def decide(
    state: Content,
    questions: list[Question],
    profile: Profile = STOCK,
    temperature: float = 1.0,
    orders: int = 1,
    **settings: Any,
) -> tuple[list[Answer], list[list[str]]]:
    readout = letters(state, profile, **settings)
    decided = scripted.decide([scripted.planned(readout, q, profile, temperature, orders) for q in questions])
    return decided.answers, decided.rounds


def reading(reads: Reads, score: Any) -> Reading:
    """Run a question on scores that a function gives for each prompt."""
    prompts = next(reads)
    try:
        while True:
            prompts = reads.send(tuple(Scores(tuple(score(p)), 1.0) for p in prompts))
    except StopIteration as end:
        found = end.value
    assert isinstance(found, Reading)
    return found


def only_prompt(question: Question, state: Content = "s", profile: Profile = STOCK) -> str:
    _, ((text,),) = decide(state, [question], profile)
    return text


def ask(type_: Predicate | Choice | Score, instructions: Any = "Is it?") -> Question:
    return Question(0, "q", None, scripted.content(instructions), type_)


@pytest.mark.parametrize("name", CASES)
def test_published_cases(name: str) -> None:
    case = CASES[name]
    request = case["request"]
    state = scripted.content(request["state"])
    assert state is not None
    questions = scripted.system_one_questions(request["questions"])
    asked = [q for q in questions if q.key in request.get("ask", request["questions"])]
    answers, rounds = decide(
        state,
        asked,
        OPENJEV,
        temperature=0.85,
        orders=request.get("samples", 1),
        style=STYLES[name.split("/")[1]],
    )
    assert rounds == [[prompt["text"] for prompt in passes] for passes in case["rounds"]]
    assert [answer.question.key for answer in answers] == list(case["answers"])
    for answer in answers:
        expected = case["answers"][answer.question.key]
        match answer.kind:
            case PredicateAnswer(probability=probability):
                assert probability == pytest.approx(expected["noul"], abs=1e-12)
            case Skipped(because=because, was=was):
                skipped = case["skipped"][answer.question.key]
                assert expected is None
                assert because == skipped["because"]
                assert was == Outcome("bool", skipped["was"] == "yes")
            case ChoiceAnswer() | ScoreAnswer() as kind:
                wanted = list(expected["probabilities"].values())
                assert kind.probabilities == pytest.approx(wanted, abs=1e-12)
                assert kind.confidence == pytest.approx(expected["confidence"], abs=1e-12)
                if isinstance(kind, ChoiceAnswer):
                    assert kind.value == expected["choice"]
                else:
                    assert kind.score == pytest.approx(expected["score"], abs=1e-12)
            case kind:
                raise AssertionError(kind)


def test_stock_profile_renders_json_everywhere() -> None:
    state = scripted.content({"zeta": 1, "alpha": {"k": [True, None, "é"]}})
    assert state is not None
    text = only_prompt(ask(Predicate(scripted.content(["x", 1.0]), None), {"goal": "is it open?"}), state)
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
    spelled, _ = decide("s", [ask(Predicate("open", DEFAULT_FALSE))])
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
    reads = letters("s").read(ask(Choice(tuple(Option(str(n)) for n in range(len(scores))))), 1.0, 1)
    found = reading(reads, lambda prompt: [scores[option] for option in prompt.options])
    assert found.probabilities == pytest.approx(softmax(scores, 1.0), rel=1e-9)


def test_a_score_that_is_not_finite_refuses_its_question_alone() -> None:
    questions = [Question(index, str(index), None, "?", Predicate()) for index in range(2)]
    plans = [scripted.planned(letters("s"), question, STOCK) for question in questions]
    decision = Decision(plans, scripted.compile_to_code_points)
    decision.next_round()
    (bad,) = decision.receive(0, Scores((float("nan"), 0.0), 0.5))
    (good,) = decision.receive(1, Scores((1.0, 0.0), 0.5))
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


def test_shuffles_are_the_published_ones() -> None:
    for name, order in FIXTURES["shuffles"].items():
        seed, count = map(int, name.removeprefix("seed").split("_n"))
        assert shuffled(range(count), seed + 2)[seed] == tuple(order)


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=60), st.integers(1, 5))
def test_orders_change_nothing_where_place_does_not_matter(scores: list[float], orders: int) -> None:
    question = ask(Choice(tuple(Option(str(n)) for n in range(len(scores)))))
    asked: list[Prompt] = []

    def by_option(prompt: Prompt) -> list[float]:
        asked.append(prompt)
        return [scores[option] for option in prompt.options]

    found = reading(letters("s").read(question, 1.0, orders), by_option)
    assert found.probabilities == pytest.approx(softmax(scores, 1.0), rel=1e-9)
    assert found.orders == orders
    assert found.order_spread == pytest.approx(0, abs=1e-12)
    assert len(asked) == orders * (1 if len(scores) <= 52 else 3)


def test_the_spread_says_how_far_orders_are_apart() -> None:
    question = ask(Choice((Option("a"), Option("b"))))
    found = reading(letters("s").read(question, 1.0, 2), lambda prompt: [1.0, 0.0])
    # Whatever is listed first gets 0.73: each option once.
    assert found.probabilities == pytest.approx((0.5, 0.5))
    assert found.order_spread == pytest.approx(2 * softmax((1.0, 0.0), 1.0)[0] - 1)


@given(
    st.lists(st.floats(-5, 5), min_size=2, max_size=60),
    st.lists(st.floats(-9, 9), min_size=60, max_size=60),
    st.integers(1, 3),
)
def test_a_correction_takes_away_what_the_letters_score_without_content(
    scores: list[float], bias: list[float], orders: int
) -> None:
    question = ask(Choice(tuple(Option(str(n)) for n in range(len(scores)))))

    def biased(prompt: Prompt) -> list[float]:
        assert prompt.prior == prompt.message.startswith(f"State:\n{NO_CONTENT}\n")
        of_state = [0.0 if prompt.prior else scores[option] for option in prompt.options]
        return [score + bias[place] for place, score in enumerate(of_state)]

    found = reading(letters("s", correct_prior=True).read(question, 1.0, orders), biased)
    assert found.probabilities == pytest.approx(softmax(scores, 1.0), rel=1e-7, abs=1e-12)
    assert found.prior_corrected
