"""Tables for people: bars of the right length, one line each, never wider than the screen."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from dicast import ChoiceAnswer, PredicateAnswer, ScoreAnswer
from dicast.cli.table import ASCII, UNICODE, WIDTH, answer_lines, bar, columns, fit, style_for

SHARES = st.floats(0, 1)


@given(SHARES, st.integers(1, 60), st.sampled_from([ASCII, UNICODE]))
def test_a_bar_fits_and_shows_that_something_is_there(share: float, width: int, style: object) -> None:
    assert isinstance(style, type(ASCII))
    drawn = bar(share, width, style)
    assert len(drawn) <= width
    assert bool(drawn) == (share > 0)


@given(SHARES, SHARES)
def test_a_larger_share_never_has_a_shorter_bar(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert len(bar(low, 40, ASCII)) <= len(bar(high, 40, ASCII))


def test_bars() -> None:
    assert bar(1, 4, UNICODE) == "████"
    assert bar(0.5, 4, UNICODE) == "██"
    assert bar(0.53125, 4, UNICODE) == "██▏"
    assert bar(0.999, 4, ASCII) == "####"
    assert bar(1e-9, 4, UNICODE) == "▏"


@given(st.text(max_size=200), st.sampled_from([ASCII, UNICODE]))
def test_a_text_fits_on_its_line_and_controls_nothing(text: str, style: object) -> None:
    assert isinstance(style, type(ASCII))
    shown = fit(text, 30, style)
    assert columns(shown) <= 30
    assert shown.isprintable()


@given(st.dictionaries(st.text(max_size=90) | st.booleans(), SHARES, min_size=1, max_size=5), st.text())
def test_every_option_has_a_line(probabilities: dict[str | bool, float], key: str) -> None:
    value = next(iter(probabilities))
    answer = ChoiceAnswer(key=key, index=0, value=value, confidence=0.5, probabilities=probabilities)
    lines = answer_lines(answer, UNICODE)
    assert len(lines) == 1 + len(probabilities)
    assert all(columns(line) <= WIDTH for line in lines)
    assert len({columns(line) for line in lines[1:]}) == 1


def test_true_and_the_text_true_are_told_apart() -> None:
    answer = ChoiceAnswer(key="a", index=0, value=True, confidence=0, probabilities={True: 0.5, "true": 0.5})
    assert [line.split()[0] for line in answer_lines(answer, ASCII)[1:]] == ["true", '"true"']


def test_predicates_and_scores() -> None:
    lines = answer_lines(PredicateAnswer(key="late", index=0, probability=0.25), ASCII)
    assert [line.split() for line in lines] == [
        ["late:", "no"],
        ["yes", "#" * 10, "0.2500"],
        ["no", "#" * 30, "0.7500"],
    ]
    score = ScoreAnswer(
        key="soon", index=0, score=0.5, confidence=0.25, probabilities=(0.5, 0.5), labels=("low", None)
    )
    assert answer_lines(score, ASCII)[0] == "soon: 0.50 of 1  (confidence 0.250)"
    assert [line.split()[:2] for line in answer_lines(score, ASCII)[1:]] == [["0", "low"], ["1", "#" * 20]]


def test_the_style_follows_the_stream() -> None:
    assert style_for(io.TextIOWrapper(io.BytesIO(), "utf-8")) is UNICODE
    assert style_for(io.TextIOWrapper(io.BytesIO(), "latin-1")) is ASCII
    assert style_for(io.StringIO()) is ASCII
