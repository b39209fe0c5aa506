"""Numbers as a person reads them, in a page and in a sentence."""

from __future__ import annotations

from dicast_server.calibration.kinds import Band
from dicast_server.calibration.metrics import Estimate

NARROW = "\u202f"
"""The narrow no-break space before a percent sign."""

_SHARES = frozenset({"accuracy"})


def percent(share: float, digits: int = 0) -> str:
    """A share as a percentage; one near 0 or 1 is never rounded to it."""
    end = 10.0 ** -(digits + 2) / 2
    if 0.0 < share < end:
        return f"under {10.0**-digits:.{digits}f}{NARROW}%"
    if 1.0 - end <= share < 1.0:
        return f"over {100 - 10.0**-digits:.{digits}f}{NARROW}%"
    return f"{100 * share:.{digits}f}{NARROW}%"


def figure(name: str, value: float) -> str:
    """A metric's value: an accuracy in percent, all others with three digits behind the point."""
    return f"{100 * value:.1f}{NARROW}%" if name in _SHARES else f"{value:.3f}"


def interval(name: str, estimate: Estimate) -> str:
    """A metric's interval."""
    if name in _SHARES:
        return f"{100 * estimate.low:.1f} to {100 * estimate.high:.1f}"
    return f"{estimate.low:.3f} to {estimate.high:.3f}"


def change(name: str, value: float) -> str:
    """A difference with its sign; of accuracies in points of a percent."""
    shown = f"{100 * value:+.1f}" if name in _SHARES else f"{value:+.3f}"
    # A rounded nothing has no direction, and the sign is no hyphen.
    shown = shown.lstrip("+-") if not float(shown) else shown.replace("-", "\u2212")
    return f"{shown} points" if name in _SHARES else shown


def change_interval(name: str, estimate: Estimate) -> str:
    """The interval of a difference."""
    low, high = change(name, estimate.low), change(name, estimate.high)
    return f"{low.removesuffix(' points')} to {high.removesuffix(' points')}"


def options(band: Band) -> str:
    """`2 options`, `3 to 4 options`."""
    return f"{band.low} options" if band.low == band.high else f"{band.low} to {band.high} options"


def count(number: int, noun: str) -> str:
    """`1 row`, `1,234 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
