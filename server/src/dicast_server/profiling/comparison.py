"""What the ways of reading made of the probe set, and which of them a profile should hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dicast_server.profiling.measures import Measures
from dicast_server.profiling.ways import Way

LEAST_OPTION_MASS = 0.25
"""The share of the model's probability that the start-up check wants on the options, if not told otherwise.
A way that leaves them less is not picked."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one way made of the probe set; `option_mass` is the mean over its questions, in [0, 1]."""

    way: Way
    overall: Measures
    by_type: Mapping[str, Measures]
    option_mass: float


@dataclass(frozen=True, slots=True)
class NotTaken:
    """A way that the model cannot take, and why."""

    way: Way
    reason: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """All ways of a probe set on one model."""

    probe_set_hash: str
    measured: Sequence[Measured]
    not_taken: Sequence[NotTaken]


@dataclass(frozen=True, slots=True)
class Pick:
    """The way that a profile should hold, and a sentence that says why."""

    way: Way
    reason: str


def pick(measured: Sequence[Measured], default: Way) -> Pick:
    """The way of the lowest log loss, where its whole interval lies below the default's; else the default.

    Few questions tell ways apart badly, and the best of many is best by luck too: two intervals that do not
    meet are asked for, which is more than 95 %. Of equal ones the first wins.

    Raises:
        ValueError: the default was not measured.
    """
    base = next((each for each in measured if each.way == default), None)
    if base is None:
        raise ValueError(f"the default way, {default.name}, was not measured")
    better = [
        each
        for each in measured
        if each.way.holdable
        and each.option_mass >= LEAST_OPTION_MASS
        and each.overall.log_loss.high < base.overall.log_loss.low
    ]
    if not better:
        return Pick(default, f"no other way has a log loss that is surely below that of {default.name}")
    best = min(better, key=lambda each: each.overall.log_loss.value)
    loss, to_beat = best.overall.log_loss, base.overall.log_loss
    return Pick(
        best.way,
        f"its log loss, {loss.high:.3f} at most, is surely below that of {default.name}, "
        f"{to_beat.low:.3f} at least",
    )
