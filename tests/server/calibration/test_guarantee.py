"""Thresholds keep the error that was wanted, on scores with a known truth."""

import math
from fractions import Fraction

import drawn
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicast_server.calibration.binomial import log_tail, upper_bound
from dicast_server.calibration.conformal import conformal_sets, members
from dicast_server.calibration.guarantee import find_threshold, one_a_group
from dicast_server.calibration.prediction import Prediction


@pytest.mark.parametrize(
    ("errors", "rows", "delta", "bound"),
    [
        # Without errors 1 - delta^(1/n); the others are quantiles of beta distributions.
        (0, 29, 0.05, 1 - 0.05 ** (1 / 29)),
        (0, 1, 0.05, 0.95),
        (1, 10, 0.05, 0.394163),
        (5, 100, 0.05, 0.102253),
        (10, 20, 0.025, 0.728042),
        (9, 10, 0.05, 0.994884),
        (10, 10, 0.05, 1.0),
        (0, 0, 0.05, 1.0),
    ],
)
def test_clopper_pearson_agrees_with_tables(errors: int, rows: int, delta: float, bound: float) -> None:
    assert upper_bound(errors, rows, delta) == pytest.approx(bound, abs=1e-6)


@given(st.integers(1, 60), st.data(), st.integers(1, 99))
def test_the_tail_is_exact(rows: int, data: st.DataObject, percent: int) -> None:
    errors = data.draw(st.integers(0, rows))
    rate = Fraction(percent, 100)
    exact = sum(math.comb(rows, k) * rate**k * (1 - rate) ** (rows - k) for k in range(errors + 1))
    assert math.exp(log_tail(errors, rows, percent / 100)) == pytest.approx(float(exact), rel=1e-9)


def test_the_tail_of_many_rows_does_not_underflow() -> None:
    assert log_tail(0, 100_000, 0.5) == pytest.approx(100_000 * math.log(0.5))
    assert log_tail(10, 100_000, 0.5) > log_tail(9, 100_000, 0.5) > -math.inf
    bound = upper_bound(1000, 100_000, 0.05)
    assert 0.01 < bound < 0.011


@pytest.mark.parametrize(
    ("rows", "options", "spread", "power", "least_share"),
    [(1000, 4, 2.5, 1.0, 0.3), (1000, 4, 2.5, 3.0, 0.3), (1000, 2, 3.0, 1.0, 0.8), (500, 4, 2.5, 1.0, 0.15)],
)
def test_the_error_among_answered_questions_stays_at_what_was_wanted(
    rows: int, options: int, spread: float, power: float, least_share: float
) -> None:
    """In at least 95 of 100 draws at or under 10 %, whether the probabilities are calibrated or too sharp."""
    held_out = drawn.predictions(20_000, np.random.default_rng(1000), options, spread, power)
    certainty = np.array([row.certainty for row in held_out])
    wrong = np.array([not row.right for row in held_out])
    kept = 0
    shares: list[float] = []
    for seed in range(100):
        drawn_rows = drawn.predictions(rows, np.random.default_rng(seed), options, spread, power)
        found = find_threshold(drawn_rows, 0.1)
        if found.threshold is None:
            kept += 1
            shares.append(0.0)
            continue
        assert found.bound is not None
        assert found.bound <= 0.1
        answered = certainty >= found.threshold
        kept += bool(wrong[answered].mean() <= 0.1)
        shares.append(float(answered.mean()))
    assert kept >= 95
    assert np.mean(shares) >= least_share


def test_the_bound_holds_where_it_is_hardest() -> None:
    """Where all answers together err just more than is wanted, so that the last threshold is wrong.

    300 draws that each fail with a probability of 0.05 have more than 23 failures once in a hundred times.
    """
    held_out = drawn.predictions(50_000, np.random.default_rng(1000), 5, 8.0)
    certainty = np.array([row.certainty for row in held_out])
    wrong = np.array([not row.right for row in held_out])
    wanted = float(wrong.mean()) - 0.0005
    failures = 0
    for seed in range(300):
        found = find_threshold(drawn.predictions(300, np.random.default_rng(seed), 5, 8.0), wanted)
        if found.threshold is not None:
            failures += bool(wrong[certainty >= found.threshold].mean() > wanted)
    assert failures <= 23


@given(st.integers(1, 40), st.data(), st.sampled_from([0.01, 0.05, 0.2]))
def test_at_the_bound_the_tail_is_delta(rows: int, data: st.DataObject, delta: float) -> None:
    errors = data.draw(st.integers(0, rows - 1))
    rate = Fraction(upper_bound(errors, rows, delta))
    exact = sum(math.comb(rows, k) * rate**k * (1 - rate) ** (rows - k) for k in range(errors + 1))
    assert float(exact) == pytest.approx(delta, rel=1e-6)


def test_a_threshold_is_what_it_says() -> None:
    rows = drawn.predictions(3000, np.random.default_rng(7))
    found = find_threshold(rows, 0.1)
    assert found.threshold is not None
    assert 2200 < found.rows < 2600
    # The share of the pilot is about what it is of all.
    answered = [row for row in rows if row.certainty >= found.threshold]
    assert len(answered) / len(rows) == pytest.approx(found.answered / found.rows, abs=0.03)
    assert found.errors / found.answered < 0.1
    assert found.bound == pytest.approx(upper_bound(found.errors, found.answered, 0.05))
    by_top = find_threshold(rows, 0.1, "top")
    assert by_top.threshold is not None
    # Of four options certainty is (top - 1/4) / (3/4): the same rows in the same order.
    assert (by_top.answered, by_top.errors) == (found.answered, found.errors)
    assert find_threshold(list(reversed(rows)), 0.1) == found
    stricter = find_threshold(rows, 0.05).threshold
    assert stricter is not None
    assert stricter > found.threshold


def test_an_error_above_that_of_all_answers_answers_everything() -> None:
    found = find_threshold(drawn.predictions(1000, np.random.default_rng(8)), 0.4)
    assert (found.threshold, found.answered) == (0.0, found.rows)


def test_where_no_threshold_meets_the_bound_it_says_so() -> None:
    rows = drawn.predictions(1000, np.random.default_rng(9))
    no_signal = [
        Prediction(r.id, r.group, r.kind, index % 4, r.probabilities) for index, r in enumerate(rows)
    ]
    found = find_threshold(no_signal, 0.1)
    assert (found.threshold, found.bound) == (None, None)
    assert "under every threshold" in found.reason
    few = find_threshold(rows[:30], 0.1)
    assert few.threshold is None
    assert few.reason == f"{few.rows} rows are fewer than the 29 that the bound takes without an error"
    alike = [Prediction(r.id, r.group, r.kind, 1, (0.25,) * 4) for r in rows]
    assert find_threshold(alike, 0.1).threshold is None
    assert find_threshold([], 0.1).threshold is None
    for wanted in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="in \\(0, 1\\)"):
            find_threshold(rows, wanted)


def test_rows_of_a_group_are_no_evidence_of_their_own() -> None:
    rows = drawn.predictions(40, np.random.default_rng(10), 2, 8.0)
    copies = [
        Prediction(f"{row.id}-{copy}", row.group, row.kind, row.label, row.probabilities)
        for row in rows
        for copy in range(50)
    ]
    assert len(one_a_group(copies)) == 40
    assert find_threshold(copies, 0.05).threshold is None
    assert find_threshold(copies, 0.05).rows < 40


def test_conformal_sets_hold_the_right_option_as_often_as_is_wanted() -> None:
    shares = []
    new = drawn.predictions(4000, np.random.default_rng(1000))
    for seed in range(40):
        found = conformal_sets(drawn.predictions(300, np.random.default_rng(seed)), 0.1)
        assert found.covered >= 0.9
        shares.append(np.mean([row.label in members(row.probabilities, found.least) for row in new]))
    assert np.mean(shares) == pytest.approx(0.9, abs=0.015)


def test_the_conformal_quantile_is_that_of_the_published_formula() -> None:
    rows = [Prediction(f"{n}", f"{n}", "choice", 0, (n / 100, 1 - n / 100)) for n in range(1, 20)]
    # ceil(20 * 0.9) = 18th largest of 0.01 ... 0.19.
    assert conformal_sets(rows, 0.1).least == 0.02
    # ceil(20 * 0.98) = 20 of 19: every option.
    found = conformal_sets(rows, 0.02)
    assert (found.least, found.size, found.covered) == (0.0, 2.0, 1.0)
    assert members((0.2, 0.5, 0.3), 0.9) == (1,)
    with pytest.raises(ValueError, match="there are rows"):
        conformal_sets([], 0.1)
