"""Which temperature applies, source by source, and what a wanted error takes."""

from dataclasses import replace
from typing import Any

import made_calibrations as made
import pytest
from made_calibrations import OFFSET, TEMPERATURES, calibration, reading, readout, threshold
from tiny_server import WEIGHTS_HASH

from dicast_server.calibration.kinds import Kind
from dicast_server.calibration.levels import Scheme
from dicast_server.decisions.answers import Guarantee, Temperature, TemperatureSource
from dicast_server.decisions.questions import Choice, Level, Option, Predicate, Question, QuestionType, Score
from dicast_server.readouts.profile import OPENJEV, STOCK
from dicast_server.service.calibrated import Calibrated
from dicast_server.service.registry import ChosenReadout
from dicast_server.service.temperatures import NoGuaranteeError, Temperatures

LETTERS = readout()
THREE = Choice(tuple(map(Option, "abc")))
TYPES: dict[Kind, QuestionType] = {
    "predicate": Predicate(),
    "choice": THREE,
    "score": Score(tuple(map(Level, "abc"))),
}


def question(type_: QuestionType = THREE) -> Question:
    return Question(0, "q", None, "?", type_)


def calibrated(read: ChosenReadout = LETTERS, orders: int = 1, **more: Any) -> Calibrated:
    return Calibrated(calibration(**more), read, orders)


def from_(temperature: Temperature) -> tuple[float, str, float]:
    return temperature.value, temperature.source.value, temperature.offset


@pytest.mark.parametrize(
    ("requested", "server", "fitted", "profile", "expected"),
    [
        (0.7, 0.8, True, OPENJEV, (0.7, "request", 0.0)),
        (None, 0.8, True, OPENJEV, (0.8, "server", 0.0)),
        (None, None, True, OPENJEV, (3.0, "fitted", 0.0)),
        (None, None, False, OPENJEV, (0.85, "profile", 0.0)),
        (None, None, False, STOCK, (1.0, "default", 0.0)),
        (0.7, None, True, STOCK, (0.7, "request", 0.0)),
        (None, 0.8, False, STOCK, (0.8, "server", 0.0)),
    ],
)
def test_precedence(
    requested: float | None, server: float | None, *, fitted: bool, profile: Any, expected: Any
) -> None:
    temperatures = Temperatures(profile, server, calibrated() if fitted else None)
    assert from_(temperatures.of(question(), LETTERS, 1, requested)) == expected


@pytest.mark.parametrize("kind", TYPES)
def test_each_type_has_its_own_and_predicates_an_offset(kind: Kind) -> None:
    found = Temperatures(STOCK, None, calibrated()).of(question(TYPES[kind]), LETTERS, 1, None)
    assert from_(found) == (TEMPERATURES[kind], "fitted", OFFSET if kind == "predicate" else 0.0)


@pytest.mark.parametrize("requested", [None, 2.0])
def test_no_offset_goes_with_a_temperature_that_is_not_fitted(requested: float | None) -> None:
    temperatures = Temperatures(STOCK, None if requested else 2.0, calibrated())
    assert temperatures.of(question(Predicate()), LETTERS, 1, requested).offset == 0.0


@pytest.mark.parametrize(
    ("read", "orders"),
    [
        (readout(style="bracket"), 1),
        (readout(correct_prior=True), 1),
        (LETTERS, 2),
        (readout("direct"), 1),
        (readout("candidates"), 1),
    ],
)
def test_what_is_read_otherwise_is_not_calibrated(read: ChosenReadout, orders: int) -> None:
    temperatures = Temperatures(STOCK, None, calibrated())
    assert temperatures.of(question(), read, orders, None).source is TemperatureSource.DEFAULT
    with pytest.raises(
        NoGuaranteeError, match=rf"read by {read.kind.name} .*orders {orders}.* is for letters"
    ):
        temperatures.guarantee(question(), read, orders, None, 0.1)


def test_settings_that_say_what_the_profile_does_are_the_same_way_of_reading() -> None:
    temperatures = Temperatures(STOCK, None, calibrated())
    spelled = readout(style="plain", correct_prior=False)
    assert temperatures.of(question(), spelled, 1, None).source is TemperatureSource.FITTED


def test_a_calibration_of_another_way_is_for_those_who_ask_for_it() -> None:
    direct = readout("direct")
    temperatures = Temperatures(STOCK, None, calibrated(direct, 2))
    assert temperatures.of(question(), direct, 2, None).source is TemperatureSource.FITTED
    assert temperatures.of(question(), LETTERS, 2, None).source is TemperatureSource.DEFAULT


def test_a_fit_that_was_not_kept_changes_nothing() -> None:
    temperatures = Temperatures(STOCK, None, calibrated(scheme=Scheme.NONE))
    assert from_(temperatures.of(question(), LETTERS, 1, None)) == (1.0, "default", 0.0)
    # A type that a fit makes worse keeps what it had, and says so by its source.
    kept: dict[Kind, float] = {"choice": 1.0, "score": 2.0}
    temperatures = Temperatures(STOCK, None, calibrated(temperatures=kept))
    assert from_(temperatures.of(question(), LETTERS, 1, None)) == (1.0, "default", 0.0)


def test_texts_of_a_question_are_another_way_of_reading() -> None:
    plain, texts = readout("candidates"), readout("candidates")
    texts = replace(texts, settings=replace(texts.settings, texts=("x", "y", "z")))
    temperatures = Temperatures(STOCK, None, calibrated(plain))
    assert temperatures.of(question(), plain, 1, None).source is TemperatureSource.FITTED
    assert temperatures.of(question(), texts, 1, None).source is TemperatureSource.DEFAULT


THRESHOLDS = [
    threshold("choice", 0.1, 0.4),
    threshold("choice", 0.2, 0.0),
    threshold("choice", 0.01, None, "the bound is above it"),
    threshold("score", 0.1, None, "too few"),
]


def test_a_threshold_is_that_of_the_type_and_the_wanted_error() -> None:
    temperatures = Temperatures(STOCK, None, calibrated(thresholds=THRESHOLDS))
    assert temperatures.guarantee(question(), LETTERS, 1, None, 0.1) == Guarantee(0.1, 0.4)
    assert temperatures.guarantee(question(), LETTERS, 1, None, 0.2) == Guarantee(0.2, 0.0)


@pytest.mark.parametrize(
    ("kind", "wanted", "said"),
    [
        ("choice", 0.01, "the bound is above it; there are: 0.1, 0.2"),
        ("choice", 0.05, "the calibration does not have it; there are: 0.1, 0.2"),
        ("score", 0.1, "too few; there are: none"),
        ("predicate", 0.1, "made without this type"),
    ],
)
def test_a_wanted_error_without_a_threshold_is_refused_with_what_there_is(
    kind: Kind, wanted: float, said: str
) -> None:
    temperatures = Temperatures(STOCK, None, calibrated(thresholds=THRESHOLDS))
    with pytest.raises(NoGuaranteeError, match=said):
        temperatures.guarantee(question(TYPES[kind]), LETTERS, 1, None, wanted)


def test_a_temperature_that_is_not_the_calibrations_has_no_guarantee() -> None:
    found = calibrated(thresholds=THRESHOLDS)
    for temperatures, requested, said in (
        (Temperatures(STOCK), None, "has none"),
        (Temperatures(STOCK, None, found), 1.5, "does not go with a temperature"),
        (Temperatures(STOCK, 1.5, found), None, "--temperature"),
    ):
        with pytest.raises(NoGuaranteeError, match=said):
            temperatures.guarantee(question(), LETTERS, 1, requested, 0.1)


def test_the_key_is_of_all_that_is_served() -> None:
    found = made.key()
    assert (found.model, found.weights_hash, found.profile) == ("tiny", WEIGHTS_HASH, "stock")
    assert (found.settings, found.orders) == ({"style": "plain", "correct_prior": False}, 1)
    assert found.prompt_version == "letters-1-plain-json"
    openjev = replace(reading(), profile=OPENJEV)
    assert openjev.key(LETTERS.kind, {}).constants == (0.85, 1.829074, 1e-4)
    # Slope and clamp are the letters' alone.
    assert openjev.key(readout("direct").kind, {}).constants == (0.85, 1.0, 0.0)
