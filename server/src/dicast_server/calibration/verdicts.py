"""What a fit is worth: better than knowing nothing but the labels' frequencies, or only flatter."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from dicast_server.calibration.blocks import Floats, Ints
from dicast_server.calibration.folds import difference
from dicast_server.calibration.kinds import Kind
from dicast_server.calibration.rows import ScoredRow


class Verdict(Enum):
    """What was found for a type.

    CALIBRATED: a fit is kept, and beats the baselines. UNCHANGED: what was served stays, and beats them.
    NO_SIGNAL: what is served, fitted or not, does not beat them: a fit then only flattens.
    """

    CALIBRATED = "calibrated"
    UNCHANGED = "unchanged"
    NO_SIGNAL = "no_signal"


def verdict(
    before: Floats,
    after: Floats,
    *,
    prior: Floats,
    uniform: Floats,
    of_kind: NDArray[np.bool_],
    codes: Ints,
) -> Verdict:
    """The verdict for the rows `of_kind`, from held-out losses a row, all (rows,).

    To beat the baselines is to be lower than the better of them in the mean by more than one standard error
    of the paired difference.
    """
    prior, uniform = prior[of_kind], uniform[of_kind]
    baseline = prior if prior.sum() <= uniform.sum() else uniform
    if not difference(baseline, after[of_kind], codes[of_kind]).clear:
        return Verdict.NO_SIGNAL
    fitted = bool((after[of_kind] != before[of_kind]).any())
    return Verdict.CALIBRATED if fitted else Verdict.UNCHANGED


def prior_losses(train: Sequence[ScoredRow], test: Sequence[ScoredRow]) -> Floats:
    """The log losses of the class prior, float64 (test rows,), in nats.

    The prior of label l among n options is (count of l + 1) / (rows + n) over the training rows of the same
    type and number of options (Laplace): a predicate's rate of yes, a score's frequencies of levels, and
    what a choice's options have by their place.
    """
    labels: Counter[tuple[Kind, int, int]] = Counter((row.kind, row.options, row.label) for row in train)
    sizes: Counter[tuple[Kind, int]] = Counter((row.kind, row.options) for row in train)
    return np.array(
        [
            math.log(sizes[row.kind, row.options] + row.options)
            - math.log(labels[row.kind, row.options, row.label] + 1)
            for row in test
        ]
    )


def uniform_losses(rows: Sequence[ScoredRow]) -> Floats:
    """The logarithm of n of each row, float64 (rows,), in nats."""
    return np.array([math.log(row.options) for row in rows])
