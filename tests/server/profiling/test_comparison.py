"""Which way a profile should hold."""

import pytest

from dicast_server.profiling.comparison import Measured, pick
from dicast_server.profiling.measures import Estimate, Measures
from dicast_server.profiling.ways import WAYS, Way, default_way
from dicast_server.readouts.profile import OPENJEV, STOCK, OptionStyle

PLAIN, BRACKET, CORRECTED, ORDERS, DIRECT = WAYS[:5]


def measured(way: Way, low: float, high: float, mass: float = 0.9) -> Measured:
    loss = Estimate((low + high) / 2, low, high)
    overall = Measures(72, Estimate(0.5, 0.4, 0.6), loss, 0.36, 1.05)
    return Measured(way, overall, {}, mass)


def test_the_default_stays_while_intervals_meet() -> None:
    picked = pick([measured(PLAIN, 1.0, 1.2), measured(BRACKET, 0.7, 1.0)], PLAIN)
    assert picked.way == PLAIN
    assert picked.reason == "no other way has a log loss that is surely below that of letters, plain"


def test_of_those_that_are_surely_better_the_best_is_picked() -> None:
    ways = [measured(BRACKET, 0.7, 0.9), measured(PLAIN, 1.0, 1.2), measured(DIRECT, 0.5, 0.95)]
    picked = pick(ways, PLAIN)
    assert picked.way == DIRECT
    assert "0.950 at most, is surely below that of letters, plain, 1.000 at least" in picked.reason


def test_equal_ones_leave_the_first() -> None:
    ways = [measured(PLAIN, 1.0, 1.2), measured(CORRECTED, 0.5, 0.7), measured(BRACKET, 0.5, 0.7)]
    assert pick(ways, PLAIN).way == CORRECTED


def test_what_a_profile_cannot_hold_or_the_start_would_refuse_is_not_picked() -> None:
    ways = [measured(PLAIN, 1.0, 1.2), measured(ORDERS, 0.1, 0.2), measured(DIRECT, 0.1, 0.2, mass=0.04)]
    assert pick(ways, PLAIN).way == PLAIN


def test_a_default_that_was_not_measured_cannot_be_compared_with() -> None:
    with pytest.raises(ValueError, match="letters, plain, was not measured"):
        pick([measured(BRACKET, 0.7, 0.9)], PLAIN)


def test_ways_have_names_of_their_own_and_published_profiles_read_in_one_of_them() -> None:
    assert len({way.name for way in WAYS}) == len(WAYS)
    assert default_way(STOCK) == PLAIN
    assert default_way(OPENJEV) == BRACKET


def test_a_profile_takes_on_a_way_and_keeps_the_rest() -> None:
    assert BRACKET.under(STOCK).style is OptionStyle.BRACKET
    corrected = CORRECTED.under(OPENJEV)
    assert (corrected.correct_prior, corrected.temperature) == (True, OPENJEV.temperature)
    direct = DIRECT.under(corrected)
    assert (direct.readout, direct.settings) == ("direct", ())
    hidden = next(way for way in WAYS if way.settings.get("hide_names")).under(STOCK)
    assert hidden.settings == (("hide_names", True),)
