"""The sentence on top is honest: about signal, about its own numbers, and about the types that have none."""

from collections.abc import Sequence
from datetime import UTC, datetime

import asked
import drawn
import numpy as np
import pytest

from dicast_server.calibration.assessment import assess
from dicast_server.calibration.binomial import upper_bound
from dicast_server.calibration.fit import fit
from dicast_server.calibration.judged import Judged
from dicast_server.calibration.metrics import Estimate
from dicast_server.calibration.prediction import Prediction
from dicast_server.calibration.rows import ScoredRow
from dicast_server.report import numbers
from dicast_server.report.baseline import guess_accuracy, has_signal
from dicast_server.report.binning import spots
from dicast_server.report.build import report_of_answers, report_of_fit
from dicast_server.report.contents import Facts, Report, System
from dicast_server.report.curve import marks
from dicast_server.report.wording import direction

FACTS = Facts("d", "00", 1, datetime(2025, 3, 4, tzinfo=UTC), "0.1.0", (System("m", "letters"),))


def evaluated(rows: Sequence[Prediction]) -> Report:
    questions = [asked.question(row.id, row.kind, len(row.probabilities)) for row in rows]
    return report_of_answers(rows, questions, FACTS, draws=5)


def calibrated(rows: Sequence[ScoredRow]) -> Report:
    found = fit(rows)
    questions = [asked.question(row.id, row.kind, row.options, row.label) for row in rows]
    return report_of_fit(found, assess(found, draws=5), questions, FACTS, draws=5)


def predicates(count: int, seed: int, power: float = 1.0, signal: bool = True) -> list[Prediction]:
    """Predicates with a known p(true); stated is p^power, normalised."""
    generator = np.random.default_rng(seed)
    found = []
    for index in range(count):
        logit = float(generator.normal(0.0, 2.0))
        truth = 1.0 / (1.0 + np.exp(-logit)) if signal else 0.5
        label = int(generator.random() >= truth)
        stated = float(1.0 / (1.0 + np.exp(-power * logit)))
        found.append(Prediction(f"r{index}", f"g{index}", "predicate", label, (stated, 1.0 - stated)))
    return found


def test_a_stated_probability_and_what_it_was_worth() -> None:
    rows = predicates(1000, 1)
    report = evaluated(rows)
    near = min(spots(Judged.of(rows), None), key=lambda spot: abs(spot.bin.stated - 0.8))
    stated, true = f"{100 * near.bin.stated:.0f}\u202f%", f"{100 * near.bin.true:.0f}\u202f%"
    assert report.headline == f"A stated {stated} was right {true} of the time."
    assert "Stated nearest to 80\u202f% are 100 answers" in report.support[0]


def test_no_signal_is_said() -> None:
    report = evaluated(predicates(400, 2, signal=False))
    assert report.headline == "No signal: these answers are no better than guessing the most common label."


def test_overconfident_is_not_no_signal() -> None:
    # Sharpened fivefold it costs more than guessing, and is right all the same.
    rows = predicates(400, 3, power=5.0)
    assert Judged.of(rows).loss.mean() > np.log(2)
    assert has_signal(rows)
    assert "was right" in evaluated(rows).headline


def test_a_fit_that_only_flattens_is_no_signal() -> None:
    report = calibrated(drawn.rows(400, 4, signal=0.0, kinds=[("choice", 4), ("predicate", 2)]))
    assert report.headline.startswith("No signal")


def test_types_without_signal_are_named() -> None:
    rows = drawn.rows(400, 4, kinds=[("choice", 4)], sharpened=2.0)
    noise = drawn.rows(400, 5, kinds=[("predicate", 2)], signal=0.0)
    rows += [ScoredRow(row.kind, f"n{row.group}", f"n{row.id}", row.label, row.scores) for row in noise]
    report = calibrated(rows)
    assert report.headline.startswith("A stated")
    assert report.support[-1] == "No signal for predicates: there the answers are no better than guessing."
    assert [part.last.signal for part in report.parts] == [True, False, True]


def test_guessing_counts_the_most_common_label_by_type_and_size() -> None:
    many = [Prediction(f"a{i}", f"a{i}", "predicate", int(i >= 30), (0.5, 0.5)) for i in range(40)]
    few = [Prediction(f"b{i}", f"b{i}", "choice", 0, (0.25,) * 4) for i in range(10)]
    # 30 of 40; and a quarter of ten, which are too few to know which label is common.
    assert guess_accuracy(many + few) == pytest.approx((30 + 2.5) / 50)


def test_one_group_has_signal_all_the_same() -> None:
    rows = [Prediction(row.id, "g", row.kind, row.label, row.probabilities) for row in predicates(200, 6)]
    assert has_signal(rows)


def test_bins_are_few_where_rows_are_few_and_have_exact_intervals() -> None:
    rows = predicates(1000, 7)
    for count, bins in ((10, 1), (60, 2), (1000, 10)):
        assert len(spots(Judged.of(rows[:count]), "predicate")) == bins
    for spot in spots(Judged.of(rows), "predicate"):
        hits = round(spot.bin.true * spot.bin.rows)
        assert spot.low <= spot.bin.true <= spot.high
        assert spot.high == upper_bound(hits, spot.bin.rows, 0.025)
    sure = [Prediction(f"{i}", f"{i}", "choice", 0, (0.9, 0.1)) for i in range(30)]
    (spot,) = spots(Judged.of(sure), "choice")
    assert (spot.bin.true, spot.high) == (1.0, 1.0)
    # 0.025^(1/30)
    assert spot.low == pytest.approx(0.025 ** (1 / 30))


def test_thresholds_are_marked_where_they_are_on_the_curve() -> None:
    rows = drawn.predictions(2000, np.random.default_rng(8))
    part = evaluated(rows).parts[0]
    found = marks(part)
    assert found
    thresholds = {each.wanted: each.threshold for each in part.thresholds}
    for mark in found:
        least = thresholds[mark.wanted]
        assert least is not None
        answered = [row for row in rows if row.certainty >= least]
        assert mark.coverage == pytest.approx(len(answered) / len(rows))
        assert mark.accuracy == pytest.approx(sum(row.right for row in answered) / len(answered))


def test_numbers_are_never_rounded_to_certainty() -> None:
    assert [numbers.percent(p) for p in (0.0, 0.001, 0.5, 0.999, 1.0)] == [
        "0\u202f%",
        "under 1\u202f%",
        "50\u202f%",
        "over 99\u202f%",
        "100\u202f%",
    ]
    assert numbers.percent(0.9999, 1) == "over 99.9\u202f%"
    assert numbers.change("accuracy", -0.012) == "\u22121.2 points"
    assert numbers.change("ece", -0.0001) == "0.000"
    assert numbers.change_interval("accuracy", Estimate(0.0, -0.01, 0.02)) == "\u22121.0 to +2.0"
    assert numbers.count(1, "row") == "1 row" and numbers.count(1200, "row") == "1,200 rows"


def test_a_difference_is_named_by_what_is_better() -> None:
    assert direction("accuracy", Estimate(0.1, 0.05, 0.2)) == "better"
    assert direction("log_loss", Estimate(0.1, 0.05, 0.2)) == "worse"
    assert direction("ece", Estimate(-0.1, -0.2, -0.05)) == "better"
    assert direction("ece", Estimate(-0.1, -0.2, 0.05)) == "unclear"
    assert direction("ece", Estimate(0.0, 0.0, 0.0)) == "same"
