"""Exact binomial bounds without SciPy."""

from __future__ import annotations

import math

import numpy as np


def log_tail(errors: int, rows: int, rate: float) -> float:
    """The logarithm of P(X <= errors) for X binomial of `rows` and `rate` in (0, 1); at most 0.

    Summed from logarithms of the terms, so that no term underflows.
    """
    if errors >= rows:
        return 0.0
    index = np.arange(1, errors + 1, dtype=np.float64)
    choose = np.concatenate([[0.0], np.cumsum(np.log((rows - index + 1.0) / index))])
    found = np.arange(errors + 1, dtype=np.float64)
    terms = choose + found * math.log(rate) + (rows - found) * math.log1p(-rate)
    top = float(terms.max())
    return min(0.0, top + math.log(float(np.exp(terms - top).sum())))


def upper_bound(errors: int, rows: int, delta: float) -> float:
    """The one-sided Clopper-Pearson (1934) bound: the rate p with P(X <= errors; p) = delta, in (0, 1].

    The true rate is above it with a probability of delta at most. 1 where there are no rows or all are
    errors.
    """
    if errors >= rows:
        return 1.0
    low, high = errors / rows, 1.0
    target = math.log(delta)
    for _ in range(60):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        # The tail falls as the rate grows.
        if log_tail(errors, rows, middle) > target:
            low = middle
        else:
            high = middle
    return high
