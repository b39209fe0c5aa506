"""Accuracy, log loss and their intervals, by hand and for whatever comes."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dicast_server.profiling.measures import Graded, Measures, bootstrapped, wilson


def test_measures_of_three_answers_by_hand() -> None:
    measures = Measures.of([Graded((0.75, 0.25), 0), Graded((0.5, 0.5), 1), Graded((0.2, 0.3, 0.4, 0.1), 2)])
    assert measures.questions == 3
    # Of two equal options the first is what was answered.
    assert measures.accuracy.value == pytest.approx(2 / 3)
    assert measures.log_loss.value == pytest.approx((math.log(4 / 3) + math.log(2) + math.log(2.5)) / 3)
    assert measures.chance_accuracy == pytest.approx((0.5 + 0.5 + 0.25) / 3)
    assert measures.chance_log_loss == pytest.approx((2 * math.log(2) + math.log(4)) / 3)


@pytest.mark.parametrize(
    ("right", "asked", "low", "high"),
    [
        # p = 1/2: the middle stays, and half is z / (2 sqrt(n + z^2)).
        (5, 10, 0.5 - 0.2634, 0.5 + 0.2634),
        # Nothing: from 0 to z^2 / (n + z^2).
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        # Newcombe (1998), table I: 81 of 263 and 15 of 148.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
    ],
)
def test_wilson_intervals_by_hand_and_as_published(right: int, asked: int, low: float, high: float) -> None:
    interval = wilson(right, asked)
    assert interval.value == right / asked
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=6e-5)


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_wilson_interval_holds_the_share_and_stays_within_0_and_1(counts: tuple[int, int]) -> None:
    interval = wilson(*counts)
    assert 0.0 <= interval.low <= interval.value <= interval.high <= 1.0
    right, asked = counts
    mirrored = wilson(asked - right, asked)
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((interval.low, interval.high))


def test_a_bootstrap_draws_the_same_every_time_and_narrows_with_more_values() -> None:
    wide, narrow = bootstrapped([0.0, 1.0] * 10), bootstrapped([0.0, 1.0] * 250)
    assert bootstrapped([0.0, 1.0] * 10) == wide
    assert wide.value == narrow.value == 0.5
    # 1.96 standard errors of 0.5 / sqrt(n).
    assert (wide.low, wide.high) == pytest.approx((0.28, 0.72), abs=0.04)
    assert (narrow.low, narrow.high) == pytest.approx((0.456, 0.544), abs=0.01)


# A bootstrap draws 2,000 times.
few = settings(max_examples=20)


@few
@given(st.lists(st.floats(0, 20), min_size=1, max_size=30))
def test_a_bootstrap_stays_among_the_values(values: list[float]) -> None:
    interval = bootstrapped(values)
    assert min(values) - 1e-9 <= interval.low <= interval.high <= max(values) + 1e-9


distributions = st.lists(st.floats(1e-6, 1), min_size=2, max_size=6).map(
    lambda weights: tuple(weight / math.fsum(weights) for weight in weights)
)
answers = distributions.flatmap(
    lambda p: st.builds(Graded, st.just(p), st.integers(0, len(p) - 1)),
)


@few
@given(st.lists(answers, min_size=1, max_size=20))
def test_measures_do_not_depend_on_the_order_of_answers(graded: list[Graded]) -> None:
    measures, turned = Measures.of(graded), Measures.of(graded[::-1])
    assert turned.accuracy == measures.accuracy
    assert turned.log_loss.value == pytest.approx(measures.log_loss.value)
    assert measures.log_loss.value >= 0
    assert 0 < measures.chance_accuracy <= 0.5


@few
@given(st.lists(st.integers(2, 6), min_size=1, max_size=20))
def test_uniform_answers_have_the_log_loss_of_chance(options: list[int]) -> None:
    measures = Measures.of([Graded((1 / n,) * n, 0) for n in options])
    assert measures.log_loss.value == pytest.approx(measures.chance_log_loss)


def test_a_probability_of_zero_costs_much_and_not_everything() -> None:
    assert Graded((1.0, 0.0), 1).loss == pytest.approx(9 * math.log(10))
