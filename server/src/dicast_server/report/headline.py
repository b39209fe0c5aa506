"""The sentence on top of a report: what a stated probability was worth, or that it was worth nothing."""

from __future__ import annotations

from collections.abc import Sequence

from dicast_server.calibration.judged import Judged
from dicast_server.calibration.levels import Scheme
from dicast_server.report.binning import Spot, spots
from dicast_server.report.contents import Column, Part
from dicast_server.report.numbers import NARROW, change, change_interval, count, percent

_SPOKEN_OF = 0.8
"""The stated probability that the sentence is about: sure enough to act on, and often wrong."""

NO_SIGNAL = "No signal: these answers are no better than guessing the most common label."


def headline_of(part: Part) -> str:
    """The sentence about one system."""
    if not part.last.signal:
        return NO_SIGNAL
    spot = _spoken_of(part.last.judged)
    return (
        f"A stated {percent(spot.bin.stated)} was right {percent(spot.bin.true)} of the time."
        if spot.bin.true < 1.0
        else f"A stated {percent(spot.bin.stated)} was always right."
    )


def support_of(parts: Sequence[Part], scheme: Scheme | None) -> tuple[str, ...]:
    """The lines under the sentence. `scheme` is what a fit kept, None where nothing was fitted."""
    whole, by_type = parts[0], parts[1:]
    found = [_basis(whole.last.judged), _overall(whole)]
    if scheme is not None:
        found.append(_of_fit(whole, scheme))
    lost = [part.kind for part in by_type if part.kind and not part.last.signal]
    if whole.last.signal and lost:
        found.append(f"No signal for {_listed(lost)}: there the answers are no better than guessing.")
    return tuple(found)


def headline_of_two(whole: Part) -> str:
    """The sentence about two systems, A and B."""
    difference = whole.differences["accuracy"]
    if difference.low <= 0.0 <= difference.high:
        return "A and B are right about equally often: no clear difference."
    better, worse = ("B", "A") if difference.value > 0.0 else ("A", "B")
    points = change("accuracy", abs(difference.value)).removeprefix("+")
    return f"{better} is right more often than {worse}, by {points}."


def support_of_two(whole: Part) -> tuple[str, ...]:
    """The lines under that sentence."""
    found = [
        f"B less A in accuracy, on the same {count(len(whole.last.judged), 'question')}: "
        f"{change('accuracy', whole.differences['accuracy'].value)} "
        f"(95{NARROW}% interval {change_interval('accuracy', whole.differences['accuracy'])})."
    ]
    for label, column in zip("AB", whole.columns, strict=True):
        found.append(f"{label}: {_sentence(column)}")
    return tuple(found)


def _sentence(column: Column) -> str:
    if not column.signal:
        return "no signal; its answers are no better than guessing the most common label."
    spot = _spoken_of(column.judged)
    return f"a stated {percent(spot.bin.stated)} was right {percent(spot.bin.true)} of the time."


def _basis(judged: Judged) -> str:
    spot = _spoken_of(judged)
    return (
        f"Stated nearest to {percent(_SPOKEN_OF)} are {count(spot.bin.rows, 'answer')}, from "
        f"{percent(spot.bin.low)} to {percent(spot.bin.high)}: {percent(spot.bin.true)} of them are right "
        f"(95{NARROW}% interval {percent(spot.low)} to {percent(spot.high)})."
    )


def _overall(whole: Part) -> str:
    judged = whole.last.judged
    return (
        f"Over all {count(len(judged), 'question')} the stated mean is {percent(float(judged.top.mean()))}, "
        f"and {percent(float(judged.right.mean()))} are right; the most common label would be right for "
        f"{percent(whole.guess)}."
    )


def _of_fit(whole: Part, scheme: Scheme) -> str:
    if scheme is Scheme.NONE:
        return "Nothing is fitted: no temperature makes held-out answers clearly better."
    before = _spoken_of(whole.columns[0].judged)
    return (
        f"Before the fit a stated {percent(before.bin.stated)} was right {percent(before.bin.true)} of the "
        "time. After it is on held-out rows, which the fit had not seen."
    )


def _spoken_of(judged: Judged) -> Spot:
    return min(spots(judged, None), key=lambda spot: (abs(spot.bin.stated - _SPOKEN_OF), -spot.bin.stated))


def _listed(kinds: Sequence[str]) -> str:
    *others, last = [f"{kind}s" for kind in kinds]
    return f"{', '.join(others)} and {last}" if others else last
