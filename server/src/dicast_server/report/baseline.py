"""Guessing: what answers without any signal would reach, and whether others are better than that."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from dicast_server.calibration.blocks import FLOOR, Floats
from dicast_server.calibration.folds import codes_of, difference
from dicast_server.calibration.kinds import Kind
from dicast_server.calibration.prediction import Prediction

_FEW = 20
"""Among fewer rows of a type and a number of options, that a label is the most common one is chance."""


def guess_accuracy(predictions: Sequence[Prediction]) -> float:
    """The accuracy of always giving the label most common among rows of the type and number of options."""
    return float(_guesses(predictions).mean())


def has_signal(predictions: Sequence[Prediction]) -> bool:
    """Whether answers are more often right than the most common label, or their probabilities cost less.

    Either by more than one standard error of the paired difference. An overconfident system costs more
    than guessing and is often right all the same, so that one of the two is enough.
    """
    codes = codes_of([row.group for row in predictions])
    if not codes.any():
        # One group has no standard error. Its rows' own is too small, and better than no answer.
        codes = np.arange(len(codes), dtype=np.int64)
    right = np.array([float(row.right) for row in predictions])
    loss = np.array([-math.log(max(row.probabilities[row.label], FLOOR)) for row in predictions])
    return (
        difference(right, _guesses(predictions), codes).clear
        or difference(_frequency_losses(predictions), loss, codes).clear
    )


def _guesses(predictions: Sequence[Prediction]) -> Floats:
    """1 where the most common label is right, else 0; 1/n for all rows of a cell of few."""
    cells: dict[tuple[Kind, int], list[int]] = {}
    for row in predictions:
        cells.setdefault(_cell(row), []).append(row.label)
    common = {cell: Counter(sorted(labels)).most_common(1)[0][0] for cell, labels in cells.items()}
    return np.array(
        [
            float(row.label == common[_cell(row)])
            if len(cells[_cell(row)]) >= _FEW
            else 1.0 / len(row.probabilities)
            for row in predictions
        ]
    )


def _frequency_losses(predictions: Sequence[Prediction]) -> Floats:
    """The lesser of two baselines' log losses a row: equal probabilities, and the other rows' frequencies."""
    labels = Counter((*_cell(row), row.label) for row in predictions)
    sizes = Counter(_cell(row) for row in predictions)
    frequencies, uniform = [], []
    for row in predictions:
        n = len(row.probabilities)
        # Without the row itself, and with one of each label on top (Laplace).
        own = labels[(*_cell(row), row.label)]
        frequencies.append(math.log(sizes[_cell(row)] - 1 + n) - math.log(own))
        uniform.append(math.log(n))
    better = frequencies if sum(frequencies) <= sum(uniform) else uniform
    return np.array(better)


def _cell(row: Prediction) -> tuple[Kind, int]:
    return row.kind, len(row.probabilities)
