"""The candidates readout: texts, ways of scoring, and what is done with the scores."""

from typing import Any

import pytest
import scripted
from hypothesis import given
from hypothesis import strategies as st

from dicast_server.decisions.passes import Prompt, Reading, Scores
from dicast_server.decisions.questions import Choice, Level, Option, Predicate, Question, Score
from dicast_server.readouts.candidates import Candidates, CandidatesSettings, Scoring
from dicast_server.readouts.profile import STOCK
from dicast_server.readouts.scores import softmax
from dicast_server.readouts.texts import NO_CONTENT

COLOURS = Question(0, "q", None, "Which colour?", Choice((Option("red", "like blood"), Option("blue"))))


def candidates(single: Any = lambda text: len(text) == 1, **settings: Any) -> Candidates:
    return Candidates("A door.", scripted.model(STOCK, single), CandidatesSettings(**settings))


def prompts_of(readout: Candidates, question: Question = COLOURS, orders: int = 1) -> tuple[Prompt, ...]:
    return next(readout.read(question, 1.0, orders))


def reading(readout: Candidates, question: Question, scores: Any, temperature: float = 1.0) -> Reading:
    reads = readout.read(question, temperature, 1)
    prompts = next(reads)
    with pytest.raises(StopIteration) as end:
        reads.send(tuple(scores(prompt) for prompt in prompts))
    found = end.value.value
    assert isinstance(found, Reading)
    return found


def test_the_prompt() -> None:
    (prompt,) = prompts_of(candidates())
    assert prompt.message == (
        "State:\nA door.\n\nQuestion: Which colour?\nOptions:\n- red: like blood\n- blue\n\n"
        "Answer with the best option only, exactly as it is written after its dash."
    )
    assert prompt.labels == ("red", "blue")
    assert prompt.whole


def test_the_names_are_the_candidates_unless_texts_are_given() -> None:
    predicate = Question(0, "q", None, "?", Predicate())
    score = Question(0, "q", None, "?", Score((Level("lo"), Level("hi"))))
    assert prompts_of(candidates(), predicate)[0].labels == ("yes", "no")
    assert prompts_of(candidates(), score)[0].labels == ("0", "1")
    assert prompts_of(candidates(texts=("It is.", "It is not.")), predicate)[0].labels == (
        "It is.",
        "It is not.",
    )


def test_single_tokens_are_read_as_such_where_all_are() -> None:
    letters = Question(0, "q", None, "?", Choice((Option("a"), Option("b"))))
    assert not prompts_of(candidates(), letters)[0].whole
    assert prompts_of(candidates(scoring=Scoring.SEQUENCE), letters)[0].whole
    assert not prompts_of(candidates(scoring=Scoring.SINGLE_TOKEN), letters)[0].whole


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"scoring": Scoring.SINGLE_TOKEN}, r"not one token of their own \('red', 'blue'\)"),
        ({"texts": ("a",)}, "are 1 candidate texts for 2 options"),
        ({"texts": ("a", "")}, "is empty: there is nothing to score"),
        ({"texts": ("a", "a")}, "is the same candidate text as that of option 0"),
    ],
)
def test_what_cannot_be_scored_is_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        prompts_of(candidates(**settings))


SCORE = st.floats(-20, 0)


@given(st.tuples(SCORE, SCORE), st.tuples(SCORE, SCORE), st.floats(0.1, 5), st.booleans(), st.booleans())
def test_scores_are_divided_corrected_and_then_softmaxed(
    scores: tuple[float, float],
    priors: tuple[float, float],
    temperature: float,
    normalize: bool,
    correct: bool,
) -> None:
    lengths = (3, 5)

    def of(prompt: Prompt) -> Scores:
        assert prompt.prior == prompt.message.startswith(f"State:\n{NO_CONTENT}\n")
        return Scores(priors if prompt.prior else scores, 0.5, (), lengths)

    found = reading(candidates(normalize_length=normalize, correct_prior=correct), COLOURS, of, temperature)
    divided = lengths if normalize else (1, 1)
    expected = [
        value / length - (prior / length if correct else 0.0)
        for value, prior, length in zip(scores, priors, divided, strict=True)
    ]
    assert found.probabilities == pytest.approx(softmax(expected, temperature), rel=1e-9)
    assert found.prior_corrected is correct
    assert found.length_normalized is normalize


def test_a_single_token_has_no_length_to_normalize() -> None:
    letters = Question(0, "q", None, "?", Choice((Option("a"), Option("b"))))
    found = reading(candidates(normalize_length=True), letters, lambda prompt: Scores((1.0, 0.0), 1.0))
    assert not found.length_normalized


def test_every_order_lists_the_texts_with_their_descriptions() -> None:
    first, second = prompts_of(candidates(), orders=2)
    assert first.labels == ("red", "blue")
    assert second.labels == ("blue", "red")
    assert "- blue\n- red: like blood\n" in second.message
