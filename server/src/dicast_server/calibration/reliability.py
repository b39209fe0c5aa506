"""Stated probabilities against what came true, in bins: reliability diagrams and calibration errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dicast_server.calibration.blocks import Floats, Ints

BINS = 10


@dataclass(frozen=True, slots=True)
class Bin:
    """Rows of like stated probability: the mean of what was stated, and the share that came true.

    `low` and `high` are the bin's ends; of equal mass they are its rows' least and largest.
    """

    low: float
    high: float
    rows: int
    stated: float
    true: float


def reliability(
    stated: Floats, came_true: NDArray[np.bool_], bins: int = BINS, equal_mass: bool = False
) -> tuple[Bin, ...]:
    """The bins that have rows, lowest first.

    Of equal width, bin k of m has k/m <= p < (k + 1)/m, the last one 1 as well. Of equal mass, the rows are
    cut at every n/m-th in order of p, and equal values stay together, so that their order means nothing.
    """
    places = _by_mass(stated, bins) if equal_mass else _by_width(stated, bins)
    found = []
    for place in range(bins):
        inside = places == place
        rows = int(inside.sum())
        if rows == 0:
            continue
        values = stated[inside]
        ends = (
            (float(values.min()), float(values.max())) if equal_mass else (place / bins, (place + 1) / bins)
        )
        found.append(Bin(*ends, rows, float(values.mean()), float(came_true[inside].mean())))
    return tuple(found)


def calibration_error(
    stated: Floats, came_true: NDArray[np.bool_], bins: int = BINS, equal_mass: bool = False
) -> float:
    """ECE: the mean over rows of their bin's |stated - true| (Naeini 2015), in [0, 1]."""
    places = _by_mass(stated, bins) if equal_mass else _by_width(stated, bins)
    # A bin's rows times its gap is the distance of its sums.
    sums = np.bincount(places, weights=stated, minlength=bins)
    hits = np.bincount(places, weights=came_true.astype(np.float64), minlength=bins)
    return float(np.abs(sums - hits).sum()) / len(stated)


def _by_width(stated: Floats, bins: int) -> Ints:
    places: Ints = np.minimum((stated * bins).astype(np.int64), bins - 1)
    return places


def _by_mass(stated: Floats, bins: int) -> Ints:
    ordered = np.sort(stated)
    cuts = ordered[[len(ordered) * place // bins for place in range(1, bins)]]
    places: Ints = np.searchsorted(cuts, stated, side="right").astype(np.int64)
    return places
