"""The fit on scores with a known truth, and what it refuses."""

import math
import random
from dataclasses import replace

import drawn
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicast_server.calibration.blocks import Constants, pack
from dicast_server.calibration.fit import Fit, FitRefused, KindFit, fit
from dicast_server.calibration.folds import codes_of, difference, fold_of
from dicast_server.calibration.kinds import Kind
from dicast_server.calibration.levels import TEMPERATURE_SD, Scheme, fit_levels
from dicast_server.calibration.minimise import minimise
from dicast_server.calibration.rows import ScoredRow
from dicast_server.calibration.table import Applied, Entry, Table
from dicast_server.calibration.verdicts import Verdict
from dicast_server.readouts.scores import softmax

CHOICES: tuple[tuple[Kind, int], ...] = (("choice", 3),)
PREDICATES: tuple[tuple[Kind, int], ...] = (("predicate", 2),)


def of(found: Fit, kind: Kind) -> KindFit:
    return next(each for each in found.kinds if each.kind == kind)


def published_temperature(rows: list[ScoredRow]) -> float:
    """The published procedure to the letter: golden section over T in [0.05, 20], 60 steps."""

    def loss(temperature: float) -> float:
        labels = [softmax(row.scores[0], temperature)[row.label] for row in rows]
        return -math.fsum(math.log(max(p, 1e-12)) for p in labels) / len(rows)

    golden = (math.sqrt(5) - 1) / 2
    low, high = 0.05, 20.0
    for _ in range(60):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if loss(left) < loss(right):
            high = right
        else:
            low = left
    return (low + high) / 2


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_scores_that_are_three_times_too_sharp_fit_a_temperature_of_three(seed: int) -> None:
    found = fit(drawn.rows(12_000, seed, CHOICES, sharpened=3.0))
    assert found.scheme is Scheme.ONE
    assert found.table.of("choice", 3).temperature == pytest.approx(3.0, rel=0.03)
    assert of(found, "choice").verdict is Verdict.CALIBRATED
    assert of(found, "choice").loss_after < of(found, "choice").loss_before


@pytest.mark.parametrize("sharpened", [0.4, 1.0, 3.0])
def test_one_temperature_is_that_of_the_published_procedure(sharpened: float) -> None:
    rows = drawn.rows(2000, 217, CHOICES, sharpened=sharpened)
    (root,) = fit_levels(pack(rows), Constants()).root
    assert root.temperature == pytest.approx(published_temperature(rows), rel=1e-5)


def test_what_scores_are_multiplied_by_is_what_the_temperature_is_multiplied_by() -> None:
    """Whatever chance made of the labels: the same ones with scores three times as large."""
    (once,) = fit_levels(pack(drawn.rows(1000, 4, CHOICES)), Constants()).root
    (thrice,) = fit_levels(pack(drawn.rows(1000, 4, CHOICES, sharpened=3.0)), Constants()).root
    assert thrice.temperature == pytest.approx(3.0 * once.temperature, rel=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_calibrated_scores_keep_none(seed: int) -> None:
    found = fit(drawn.rows(400, seed))
    assert (found.scheme, found.table) == (Scheme.NONE, Table(1.0))
    assert found.before == found.after
    assert {each.verdict for each in found.kinds} == {Verdict.UNCHANGED}


def test_types_and_a_bias_are_told_apart() -> None:
    by: dict[Kind, float] = {"predicate": 2.0, "choice": 4.0, "score": 1.0}
    found = fit(drawn.rows(4000, 5, sharpened=by, bias=2.0))
    assert found.scheme is Scheme.KIND
    predicate = found.table.of("predicate", 2)
    assert predicate.temperature == pytest.approx(2.0, rel=0.15)
    # A bias of 2 on the scores is one of 1 behind a temperature of 2.
    assert predicate.offset == pytest.approx(-1.0, abs=0.15)
    assert found.table.of("choice", 3) == found.table.of("choice", 200)
    assert found.table.of("choice", 3).temperature == pytest.approx(4.0, rel=0.1)
    assert found.table.of("choice", 3).offset == 0.0
    assert found.table.of("score", 5).temperature == pytest.approx(1.0, rel=0.1)


def test_bands_are_told_apart() -> None:
    found = fit(
        drawn.rows(3000, 6, (("choice", 3), ("choice", 12)), sharpened=lambda kind, n: 1.0 if n == 3 else 5.0)
    )
    assert found.scheme is Scheme.BAND
    assert found.table.of("choice", 4).temperature == pytest.approx(1.0, rel=0.1)
    assert found.table.of("choice", 9).temperature == pytest.approx(5.0, rel=0.1)
    # Bands without rows have their type's temperature, types without rows the one of all.
    between = found.table.of("choice", 6).temperature
    assert 1.1 < between < 4.9
    assert found.table.of("score", 6).temperature == pytest.approx(between, rel=1e-3)


def test_thin_cells_stay_with_their_parent_by_the_stated_formula() -> None:
    rows = drawn.rows(1000, 7, CHOICES, sharpened=2.0)
    few = drawn.rows(8, 8, (("score", 3),), sharpened=2.0)
    levels = fit_levels(pack(sorted([*rows, *few])), Constants())
    (root,) = levels.root
    score = next(entry for entry in levels.kinds if entry.kind == "score")
    assert (score.rows, root.rows) == (8, 1008)

    def loss(log_temperature: float) -> float:
        labels = [softmax(row.scores[0], math.exp(log_temperature))[row.label] for row in few]
        own = -math.fsum(map(math.log, labels))
        return own + ((log_temperature - math.log(root.temperature)) / TEMPERATURE_SD) ** 2 / 2

    assert math.log(score.temperature) == pytest.approx(
        minimise(loss, math.log(0.05), math.log(20)).at, abs=1e-4
    )
    alone = math.exp(
        minimise(
            lambda x: loss(x) - ((x - math.log(root.temperature)) / TEMPERATURE_SD) ** 2 / 2,
            math.log(0.05),
            math.log(20),
        ).at
    )
    assert abs(math.log(score.temperature / root.temperature)) < abs(math.log(alone / root.temperature))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("sharpened", "signal"), [(1.3, 1.0), (1.0, 0.3), (0.5, 1.0)])
def test_held_out_answers_are_never_worse_than_without_a_fit(
    seed: int, sharpened: float, signal: float
) -> None:
    found = fit(drawn.rows(250, seed, sharpened=sharpened, signal=signal, group=3))
    losses = found.losses
    assert losses[found.scheme] <= losses[Scheme.NONE]
    for each in found.kinds:
        assert each.loss_after <= each.loss_before
    of_after = [-math.log(max(row.probabilities[row.label], 1e-12)) for row in found.after]
    by_kind = math.fsum(each.loss_after * each.rows for each in found.kinds) / len(found.after)
    assert by_kind == pytest.approx(np.mean(of_after), rel=1e-9)


def test_a_type_that_a_fit_makes_worse_keeps_what_it_had() -> None:
    # A few rows of a type that is too flat among many that are too sharp.
    by: dict[Kind, float] = {"choice": 3.0, "score": 0.7}
    kinds: list[tuple[Kind, int]] = [*(CHOICES * 40), ("score", 3)]
    found = fit(drawn.rows(820, 9, kinds, sharpened=by))
    assert found.table.of("score", 3) == (1.0, 0.0)
    assert found.table.of("choice", 3).temperature == pytest.approx(3.0, rel=0.15)
    assert any(note.startswith("score: the fit makes held-out answers worse") for note in found.notes)
    for before, after in zip(found.before, found.after, strict=True):
        assert (before == after) == (before.kind == "score")


@pytest.mark.parametrize("spread", [0.7, 2.0])
@pytest.mark.parametrize("kinds", [CHOICES, PREDICATES])
def test_a_fit_that_only_flattens_is_no_signal(spread: float, kinds: tuple[tuple[Kind, int], ...]) -> None:
    rows = drawn.rows(500, 3, kinds, signal=0.0, spread=spread)
    (kind,) = fit(rows).kinds
    assert kind.verdict is Verdict.NO_SIGNAL
    assert kind.loss_after < kind.loss_before
    assert kind.loss_after == pytest.approx(min(kind.prior, kind.uniform), abs=0.02)


def test_a_bias_alone_is_no_signal() -> None:
    rows = [
        replace(row, label=int(index % 10 == 0))
        for index, row in enumerate(drawn.rows(600, 4, PREDICATES, spread=0.5))
    ]
    found = fit(rows)
    assert found.table.of("predicate", 2).offset > 1.0
    assert of(found, "predicate").verdict is Verdict.NO_SIGNAL


def test_a_fit_at_the_edge_is_refused_with_the_reason() -> None:
    with pytest.raises(FitRefused, match=r"20 is at the upper edge of \[0.05, 20\]: the scores carry no sig"):
        fit(drawn.rows(400, 3, CHOICES, signal=0.0, spread=30.0))
    wrong = [
        replace(row, label=int(row.scores[0][0] > row.scores[0][1]))
        for row in drawn.rows(400, 3, PREDICATES, spread=3.0)
    ]
    with pytest.raises(FitRefused, match="upper edge"):
        fit(wrong)
    right = [
        replace(row, label=int(row.scores[0][0] < row.scores[0][1]))
        for row in drawn.rows(4000, 3, PREDICATES, spread=3.0)
    ]
    with pytest.raises(FitRefused, match=r"0\.05.* is at the lower edge"):
        fit(right)
    # The published rule: within 1 % of the span, T <= 0.2495 or T >= 19.8005.
    for sharpened, refused in ((0.24, True), (0.26, False)):
        rows = drawn.rows(8000, 3, CHOICES, sharpened=sharpened)
        assert bool(fit_levels(pack(rows), Constants()).refused) == refused


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(FitRefused, match="49 rows are usable, and a fit takes 50"):
        fit(drawn.rows(49, 1))
    assert fit(drawn.rows(50, 1)).before
    with pytest.raises(FitRefused, match="0 rows are usable"):
        fit([])


def test_one_class_only_is_refused() -> None:
    yes = [replace(row, label=0) for row in drawn.rows(100, 1, PREDICATES)]
    with pytest.raises(FitRefused, match=r"of one class only .*predicate: all 100 labels are option 0"):
        fit(yes)
    # Where other types have more than one class they are fitted without it.
    found = fit([*yes, *drawn.rows(400, 2, CHOICES, sharpened=3.0)])
    assert [each.kind for each in found.kinds] == ["choice"]
    assert "predicate: all 100 labels" in found.notes[0]
    with pytest.raises(FitRefused, match=r"40 rows are usable.*predicate: all 100"):
        fit([*yes, *drawn.rows(40, 2, CHOICES)])


def test_a_group_is_in_one_fold() -> None:
    digests = {"a": "ca978112", "b": "3e23e816", "": "e3b0c442"}
    assert {group: fold_of(group) for group in digests} == {g: int(d, 16) % 5 for g, d in digests.items()}
    rows = [replace(row, group="one") for row in drawn.rows(100, 1)]
    with pytest.raises(FitRefused, match="of 1 groups, all in one fold"):
        fit(rows)


def test_a_group_that_is_repeated_counts_once() -> None:
    """Copies under one group neither cross the folds nor make a chance look certain."""
    rows = drawn.rows(60, 12, CHOICES, sharpened=1.3)
    copies = [replace(row, id=f"{row.id}-{copy}") for row in rows for copy in range(30)]
    assert fit(copies).scheme is fit(rows).scheme is Scheme.NONE
    apart = [replace(row, group=row.id) for row in copies]
    assert fit(apart).scheme is Scheme.ONE


def test_the_order_of_rows_means_nothing() -> None:
    rows = drawn.rows(300, 11, sharpened=2.0, group=2)
    mixed = rows.copy()
    random.Random(3).shuffle(mixed)
    assert fit(rows) == fit(mixed)


def test_constants_of_a_profile_are_what_is_served_without_a_fit() -> None:
    constants = Constants(0.85, 1.829074, 1e-4)
    rows = drawn.rows(1000, 13, PREDICATES, sharpened=0.85 * 1.829074)
    assert fit(rows, constants).table == Table(0.85)
    found = fit(drawn.rows(2000, 13, PREDICATES, sharpened=3.0 * 1.829074), constants)
    assert found.table.of("predicate", 2).temperature == pytest.approx(3.0, rel=0.1)


def test_orders_are_averaged_as_probabilities() -> None:
    single = drawn.rows(600, 14, CHOICES, sharpened=3.0)
    double = [replace(row, scores=(row.scores[0], row.scores[0])) for row in single]
    assert fit(double).table.of("choice", 3).temperature == pytest.approx(
        fit(single).table.of("choice", 3).temperature, rel=1e-5
    )


@given(st.floats(-3.0, 3.0), st.floats(0.1, 5.0))
def test_a_minimum_is_found_wherever_it_is(at: float, scale: float) -> None:
    found = minimise(lambda x: scale * (x - at) ** 2, -2.0, 2.0)
    assert found.at == pytest.approx(min(2.0, max(-2.0, at)), abs=1e-6)


def test_of_two_valleys_the_deeper_is_found() -> None:
    found = minimise(lambda x: min((x + 1.5) ** 2 + 0.1, (x - 1.2) ** 2), -2.0, 2.0)
    assert found.at == pytest.approx(1.2, abs=1e-6)


def test_the_error_of_a_difference_counts_groups() -> None:
    first, zero = np.array([1.0, 1.0, 0.0, 2.0]), np.zeros(4)
    alone = difference(first, zero, codes_of(["a", "b", "c", "d"]))
    # The standard error of a mean: sd / sqrt(n).
    assert alone.mean == 1.0
    assert alone.error == pytest.approx(np.std(first, ddof=1) / 2.0)
    paired = difference(first, zero, codes_of(["a", "a", "b", "b"]))
    assert paired.mean == 1.0
    assert paired.error == pytest.approx(0.0)
    assert difference(first, zero, codes_of(["a"] * 4)).error == math.inf
    assert not difference(zero, zero, codes_of(["a", "b", "c", "d"])).clear


def test_a_table_gives_the_most_particular_entry() -> None:
    entries = (
        Entry(None, None, 2.0, 0.0, 9),
        Entry("choice", None, 3.0, 0.0, 5),
        Entry("predicate", None, 4.0, 0.5, 4),
    )
    table = Table(0.85, entries)
    assert table.of("predicate", 2) == Applied(4.0, 0.5)
    assert table.of("choice", 9) == Applied(3.0, 0.0)
    assert table.of("score", 9) == Applied(2.0, 0.0)
    assert table.without("choice", 5).of("choice", 9) == Applied(0.85, 0.0)
    assert Table(0.85).of("score", 9) == Applied(0.85, 0.0)
    assert Table(0.85).without("score", 5) == Table(0.85)
