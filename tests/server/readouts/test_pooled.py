"""The pooled readout: its prompt and the spans of it, and what is made of their means."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pooled_heads
import pytest
import scripted
from hypothesis import given
from hypothesis import strategies as st

from dicast import jsontext
from dicast_server.decisions.decision import Decision, Origin
from dicast_server.decisions.passes import Pass, Prompt, Reading, Scores
from dicast_server.decisions.questions import Choice, Content, Level, Option, Predicate, Question, Score
from dicast_server.decisions.types import FieldError
from dicast_server.readouts.pooled import KIND, Pooled
from dicast_server.readouts.profile import STOCK
from dicast_server.readouts.scores import softmax

SIZE = 6
HEAD = pooled_heads.head(SIZE)
COLOURS = Question(
    0, "q", None, "Which colour?", Choice((Option("red", "like blood"), Option("blue"), Option("grün")))
)
OPEN = Question(0, "q", None, "Is it open?", Predicate("It is.", None))


def pooled(state: Content = "A door.") -> Pooled:
    return KIND.open(state, replace(scripted.model(STOCK), head=HEAD), None)


def prompts_of(readout: Pooled, question: Question, orders: int = 1) -> tuple[Prompt, ...]:
    return next(readout.read(question, 1.0, orders))


def spelled(prompt: Prompt) -> list[str]:
    return [prompt.message[start:end] for start, end in prompt.spans]


def means_of(prompt: Prompt) -> tuple[tuple[float, ...], ...]:
    """Means that the spans' texts alone decide."""
    seeds = [list(text.encode()) for text in spelled(prompt)]
    return tuple(tuple(np.random.default_rng([1, *seed]).normal(size=SIZE).tolist()) for seed in seeds)


def reading(question: Question, orders: int = 1, temperature: float = 1.0) -> Reading:
    reads = pooled().read(question, temperature, orders)
    prompts = next(reads)
    with pytest.raises(StopIteration) as end:
        reads.send(tuple(Scores((), 1.0, means=means_of(prompt)) for prompt in prompts))
    found = end.value.value
    assert isinstance(found, Reading)
    return found


def test_the_prompt_and_its_spans() -> None:
    (prompt,) = prompts_of(pooled(), COLOURS)
    assert prompt.message == (
        "State:\nA door.\n\nQuestion: Which colour?\nOptions:\n- red: like blood\n- blue\n- grün"
    )
    assert spelled(prompt) == ["A door.", " Which colour?", " red: like blood", " blue", " grün"]
    assert (prompt.labels, prompt.options, prompt.system, prompt.whole) == ((), (0, 1, 2), "", False)


def test_a_predicate_has_yes_and_no() -> None:
    (prompt,) = prompts_of(pooled(), OPEN)
    assert spelled(prompt)[1:] == [" Is it open?", " yes: It is.", " no: The statement is false."]


def test_a_score_has_its_levels() -> None:
    levels = Question(0, "q", None, None, Score((Level("low"), Level("high", "very"))))
    (prompt,) = prompts_of(pooled(), levels)
    assert spelled(prompt)[1:] == [" Which level fits best?", " 0: low", " 1: high: very"]


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("", ""),
        ("naïve 日本 😀", "naïve 日本 😀"),
        (scripted.content({"größe": [1, None], "x": "State:\n😀"}), None),
    ],
)
def test_the_first_span_is_the_states_text(state: Content, text: str | None) -> None:
    (prompt,) = prompts_of(pooled(state), OPEN)
    shown = STOCK.wording.state(state) if text is None else text
    assert spelled(prompt)[:2] == [shown, " Is it open?"]


@given(st.text(), st.text(), st.lists(st.text(min_size=1), min_size=2, max_size=5, unique=True))
def test_spans_are_found_in_any_texts(state: str, asked: str, names: list[str]) -> None:
    question = Question(0, "q", None, asked, Choice(tuple(map(Option, names))))
    (prompt,) = prompts_of(pooled(state), question)
    assert spelled(prompt) == [state, f" {asked}", *(f" {name}" for name in names)]


def test_all_questions_share_what_they_begin_with() -> None:
    opening = pooled().opening(COLOURS)
    assert opening == pooled().opening(None)
    for question in (COLOURS, OPEN):
        (prompt,) = prompts_of(pooled(), question)
        assert prompt.message.startswith(opening.alone)
    assert opening.continued.startswith(opening.alone)


@pytest.mark.parametrize("question", [COLOURS, OPEN])
def test_probabilities_are_those_of_the_heads_scores(question: Question) -> None:
    (prompt,) = prompts_of(pooled(), question)
    scores = HEAD.scores(question is OPEN, means_of(prompt))
    found = reading(question, temperature=2.0)
    assert found.probabilities == softmax(scores, 2.0)
    assert found.scores == (scores,)


@pytest.mark.parametrize("question", [COLOURS, OPEN])
def test_an_option_is_the_same_wherever_it_is_listed(question: Question) -> None:
    # These means know nothing of places, so that orders change nothing.
    once, often = reading(question), reading(question, orders=4)
    assert often.probabilities == pytest.approx(once.probabilities, rel=1e-12)
    assert often.orders == 4
    assert often.order_spread < 1e-12
    listed = [prompt.options for prompt in prompts_of(pooled(), question, 4)]
    assert len(set(listed)) > 1
    for options, scores in zip(listed, often.scores, strict=True):
        assert [scores[options.index(option)] for option in range(len(options))] == list(once.scores[0])


def test_without_a_head_it_refuses() -> None:
    plain = KIND.open("A door.", scripted.model(STOCK), None)
    with pytest.raises(ValueError, match="this model has not"):
        next(plain.read(OPEN, 1.0, 1))
    assert plain.prompt_version == "pooled-1"


def test_it_has_no_settings_and_no_later_round() -> None:
    assert KIND.settings(jsontext.Object()) is None  # type: ignore[func-returns-value]
    with pytest.raises(FieldError):
        KIND.settings(jsontext.Object([("orders", "2")]))
    assert pooled().later(OPEN) is None  # type: ignore[func-returns-value]


def compile_to_characters(asked: Sequence[tuple[Question, Prompt]]) -> list[Pass]:
    return [Pass(tuple(map(ord, prompt.message)), spans=prompt.spans) for _, prompt in asked]


def test_answers_carry_the_raw_scores() -> None:
    decision = Decision(
        [scripted.planned(pooled(), OPEN, STOCK)], compile_to_characters, origin=Origin("m", "w", "s")
    )
    (pass_,) = decision.next_round()
    (prompt,) = prompts_of(pooled(), OPEN)
    (answer,) = decision.receive(0, Scores((), 1.0, (0,), means=means_of(prompt)))
    told = scripted.diagnostics(answer)
    assert told.passes[0].scores == HEAD.scores(True, means_of(prompt))
    assert (told.score_kind, told.option_mass, told.tokens) == ("pooled_score", 1.0, len(pass_.tokens))


def test_means_that_are_not_finite_are_refused() -> None:
    assert not Scores((), 1.0, means=((0.0, 1.0), (float("nan"), 1.0))).finite
    assert not Scores((), 1.0, means=((float("inf"), float("-inf")),)).finite
    assert Scores((), 1.0, means=((0.0, 1.0),)).finite
