"""Figures against worked examples, and what must not change them."""

import math
import random

import drawn
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicast_server.calibration.judged import Judged
from dicast_server.calibration.kinds import Kind
from dicast_server.calibration.metrics import (
    GAPS,
    METRICS,
    accuracy,
    auc,
    brier,
    coverage_curve,
    ece,
    ece_fine,
    ece_mass,
    ece_true,
    log_loss,
    paired,
    resamples,
    summary,
    worst,
)
from dicast_server.calibration.prediction import Prediction
from dicast_server.calibration.reliability import calibration_error, reliability
from dicast_server.decisions.answers import certainty
from dicast_server.decisions.questions import Choice, Level, Option, Predicate, Question, QuestionType, Score


def said(kind: Kind, label: int, *probabilities: float, name: str = "a", group: str = "") -> Prediction:
    return Prediction(name, group or name, kind, label, probabilities)


FOUR = [
    said("predicate", 0, 0.9, 0.1, name="a"),
    said("predicate", 1, 0.6, 0.4, name="b"),
    said("choice", 2, 0.2, 0.3, 0.5, name="c"),
    said("score", 0, 0.25, 0.75, name="d"),
]


def test_figures_of_a_worked_example() -> None:
    judged = Judged.of(FOUR)
    assert accuracy(judged) == 0.5
    assert log_loss(judged) == pytest.approx(
        -(math.log(0.9) + math.log(0.4) + math.log(0.5) + math.log(0.25)) / 4
    )
    assert brier(judged) == pytest.approx((0.02 + 0.72 + 0.04 + 0.09 + 0.25 + 1.125) / 4)
    # Each in a bin of its own: |0.9 - 1|, |0.6 - 0|, |0.5 - 1|, |0.75 - 0|.
    assert ece(judged) == ece_fine(judged) == ece_mass(judged) == pytest.approx(1.95 / 4)
    assert ece_true(judged) == pytest.approx((0.1 + 0.6) / 2)
    assert auc(judged) == 1.0


def test_auc_counts_ties_half_and_needs_both_classes() -> None:
    ties = [
        said("predicate", label, p, 1 - p, name=f"{index}")
        for index, (label, p) in enumerate([(0, 0.5), (1, 0.5), (0, 0.9), (1, 0.1), (1, 0.9)])
    ]
    # Pairs of (true, false): 0.5 over 0.5, 0.1, 0.9 and 0.9 over 0.5, 0.1, 0.9.
    assert auc(Judged.of(ties)) == pytest.approx((0.5 + 1 + 0 + 1 + 1 + 0.5) / 6)
    assert math.isnan(auc(Judged.of(ties[:1])))
    assert math.isnan(ece_true(Judged.of([FOUR[2]])))
    with pytest.raises(ValueError, match="nothing to judge"):
        Judged.of([])


def test_certainty_is_what_abstaining_compares() -> None:
    types: dict[Kind, QuestionType] = {
        "predicate": Predicate(),
        "choice": Choice((Option("a"), Option("b"), Option("c"))),
        "score": Score((Level("a"), Level("b"))),
    }
    for row in FOUR:
        question = Question(0, "q", None, None, types[row.kind])
        assert row.certainty == certainty(question, row.probabilities)


def test_bins_of_equal_width_and_of_equal_mass() -> None:
    stated = np.array([0.05, 0.1, 0.1, 0.95, 1.0])
    came_true = np.array([False, True, False, True, True])
    found = reliability(stated, came_true)
    assert [(each.low, each.high, each.rows) for each in found] == [
        (0.0, 0.1, 1),
        (0.1, 0.2, 2),
        (0.9, 1.0, 2),
    ]
    assert [each.true for each in found] == [0.0, 0.5, 1.0]
    assert [each.stated for each in found] == pytest.approx([0.05, 0.1, 0.975])
    by_mass = reliability(stated, came_true, bins=2, equal_mass=True)
    # Cut before the third value; what equals it goes with it.
    assert [(each.low, each.high, each.rows) for each in by_mass] == [(0.05, 0.05, 1), (0.1, 1.0, 4)]
    for equal_mass in (False, True):
        bins = reliability(stated, came_true, equal_mass=equal_mass)
        gaps = [each.rows * abs(each.stated - each.true) for each in bins]
        assert calibration_error(stated, came_true, equal_mass=equal_mass) == pytest.approx(sum(gaps) / 5)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60), st.randoms())
def test_the_order_of_rows_changes_no_bin(rows: list[tuple[float, bool]], mix: random.Random) -> None:
    mixed = rows.copy()
    mix.shuffle(mixed)
    for bins in (10, 15):
        for equal_mass in (False, True):
            first, second = (
                reliability(np.array([p for p, _ in r]), np.array([t for _, t in r]), bins, equal_mass)
                for r in (rows, mixed)
            )
            assert sum(each.rows for each in first) == len(rows)
            assert [(b.low, b.high, b.rows) for b in first] == [(b.low, b.high, b.rows) for b in second]
            assert [b.true for b in first] == pytest.approx([b.true for b in second])


def test_calibrated_answers_have_a_small_error_and_sharpened_ones_a_large_one() -> None:
    honest = drawn.predictions(4000, np.random.default_rng(1))
    sharp = drawn.predictions(4000, np.random.default_rng(1), power=3.0)
    assert ece(Judged.of(honest)) < 0.02
    assert ece(Judged.of(sharp)) > 0.1
    found = paired(sharp, honest, draws=100)
    assert found["accuracy"] == (0.0, 0.0, 0.0)
    for name in ("ece", "ece_mass", "ece_fine", "log_loss", "brier"):
        assert found[name].low < found[name].value < found[name].high < 0.0
    assert "auc" not in found


def test_two_systems_are_compared_on_the_same_questions_alone() -> None:
    with pytest.raises(ValueError, match="same labelled questions"):
        paired(FOUR, FOUR[:3])
    with pytest.raises(ValueError, match="same labelled questions"):
        paired(FOUR, [*FOUR[:3], said("score", 1, 0.25, 0.75, name="d")])
    assert paired(FOUR, list(reversed(FOUR)), draws=20)["log_loss"] == (0.0, 0.0, 0.0)


def test_the_interval_of_a_calibration_error_holds_it_and_reaches_zero() -> None:
    generator = np.random.default_rng(11)
    holds = 0
    for _ in range(40):
        judged = Judged.of(drawn.predictions(200, generator))
        found = summary(judged, draws=100)
        for name in GAPS & set(found):
            assert 0.0 <= found[name].low <= found[name].value <= found[name].high
        # The truth is 0: labels are drawn from what is stated.
        holds += found["ece"].low == 0.0
    assert holds >= 20
    sharp = summary(Judged.of(drawn.predictions(1000, generator, power=3.0)), draws=100)["ece"]
    assert 0.05 < sharp.low < sharp.value < sharp.high


def test_intervals_draw_groups() -> None:
    rows = drawn.predictions(300, np.random.default_rng(2))
    copies = [
        Prediction(f"{row.id}-{copy}", row.group, row.kind, row.label, row.probabilities)
        for row in rows
        for copy in range(5)
    ]
    few, many = summary(Judged.of(rows), 300), summary(Judged.of(copies), 300)
    for name in ("accuracy", "log_loss", "brier"):
        assert few[name].low < few[name].value < few[name].high
        assert many[name] == pytest.approx(few[name])
    assert set(few) == set(METRICS) - {"auc", "ece_true"}
    groups = np.array([0, 1, 1, 2])
    for places in resamples(groups, 20):
        counts = np.bincount(groups[places], minlength=3)
        assert counts[0] + counts[1] / 2 + counts[2] == 3


def test_the_order_of_predictions_means_nothing() -> None:
    rows = [*FOUR, *drawn.predictions(50, np.random.default_rng(3))]
    mixed = rows.copy()
    random.Random(1).shuffle(mixed)
    assert summary(Judged.of(rows), 50) == summary(Judged.of(mixed), 50)
    assert worst(rows) == worst(mixed)
    assert coverage_curve(Judged.of(rows)) == coverage_curve(Judged.of(mixed))


def test_probabilities_of_zero_have_a_finite_loss() -> None:
    rows = [said("choice", 1, 1.0, 0.0), said("choice", 0, *(1 / 255,) * 255, name="b")]
    found = summary(Judged.of(rows), 20)
    assert all(math.isfinite(value) for estimate in found.values() for value in estimate)
    assert log_loss(Judged.of(rows[:1])) == pytest.approx(-math.log(1e-12))


def test_coverage_falls_with_certainty_and_ties_go_together() -> None:
    rows = [
        said("predicate", 0, 0.9, 0.1, name="a"),
        said("predicate", 0, 0.8, 0.2, name="b"),
        said("predicate", 1, 0.8, 0.2, name="c"),
        said("predicate", 1, 0.5, 0.5, name="d"),
    ]
    assert [(point.coverage, point.accuracy) for point in coverage_curve(Judged.of(rows))] == [
        (0.25, 1.0),
        (0.75, pytest.approx(2 / 3)),
        (1.0, 0.5),
    ]
    many = coverage_curve(Judged.of(drawn.predictions(1000, np.random.default_rng(4))), points=50)
    assert len(many) == 50
    assert many[-1].coverage == 1.0
    assert [p.coverage for p in many] == sorted(p.coverage for p in many)


def test_the_worst_misses_come_first() -> None:
    assert [row.id for row in worst(FOUR, 5)] == ["d", "b"]
    assert [row.id for row in worst(FOUR, 1)] == ["d"]
