"""Folds and figures for groups: rows of one group are never on both sides, and count as one draw."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dicast_server.calibration.blocks import Floats, Ints

FOLDS = 5


def fold_of(group: str) -> int:
    """The fold of a group: the first 8 hexadecimal digits of its SHA-256 modulo FOLDS, as published.

    It depends on nothing but the group's name, so that a group never splits, also across files. Folds are
    not of one size.
    """
    return int(hashlib.sha256(group.encode()).hexdigest()[:8], 16) % FOLDS


def codes_of(groups: Sequence[str]) -> Ints:
    """Groups as numbers from 0 in the order of their names, int64 (rows,)."""
    names = {name: code for code, name in enumerate(sorted(set(groups)))}
    return np.array([names[group] for group in groups], dtype=np.int64)


class Difference(NamedTuple):
    """A mean difference a row, and its standard error."""

    mean: float
    error: float

    @property
    def clear(self) -> bool:
        """Whether the mean is above zero by more than its standard error."""
        return self.mean > self.error


def difference(first: Floats, second: Floats, codes: Ints) -> Difference:
    """The mean of `first - second` over rows, with the standard error of the ratio of groups' sums.

    With d_g the sum in group g, n_g its rows, D the mean and G groups (Cochran 1977, 6.19):
    error^2 = G / (G - 1) sum_g (d_g - n_g D)^2 / n^2. Infinite for a single group.
    """
    rows = len(codes)
    if rows == 0:
        return Difference(0.0, 0.0)
    sizes = np.bincount(codes)
    sums = np.bincount(codes, weights=first - second)
    mean = float(sums.sum()) / rows
    present = sizes > 0
    groups = int(present.sum())
    if groups < 2:
        return Difference(mean, float("inf"))
    squares = float(((sums - sizes * mean)[present] ** 2).sum())
    return Difference(mean, float(np.sqrt(groups / (groups - 1) * squares)) / rows)
