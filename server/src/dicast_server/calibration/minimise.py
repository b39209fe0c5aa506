"""The minimum of a function of one variable, without SciPy and the same every time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


class Minimum(NamedTuple):
    """Where a function is least, and its value there."""

    at: float
    value: float


def minimise(
    function: Callable[[float], float], low: float, high: float, grid: int = 25, width: float = 1e-7
) -> Minimum:
    """Golden-section search (Kiefer 1953) around the best of `grid` >= 3 even points.

    The points first, because a loss with a floor may have more than one valley. Ends where the minimum is
    known to `width`. A minimum at an end of [low, high] is found there, to `width`.
    """
    step = (high - low) / (grid - 1)
    points = [low + step * index for index in range(grid)]
    values = [function(point) for point in points]
    best = min(range(grid), key=lambda index: values[index])
    left, right = max(low, points[best] - step), min(high, points[best] + step)
    inner, outer = right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)
    at_inner, at_outer = function(inner), function(outer)
    while right - left > width:
        if at_inner <= at_outer:
            right, outer, at_outer = outer, inner, at_inner
            inner = right - _GOLDEN * (right - left)
            at_inner = function(inner)
        else:
            left, inner, at_inner = inner, outer, at_outer
            outer = left + _GOLDEN * (right - left)
            at_outer = function(outer)
    found = min((at_inner, inner), (at_outer, outer), (values[best], points[best]))
    return Minimum(found[1], found[0])
