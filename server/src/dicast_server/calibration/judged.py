"""Predictions as columns, which every figure is computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from dicast_server.calibration.blocks import FLOOR, Floats, Ints
from dicast_server.calibration.folds import codes_of
from dicast_server.calibration.prediction import Prediction


@dataclass(frozen=True, slots=True)
class Judged:
    """Columns of some predictions, each of (rows,); floats are float64.

    Attributes:
        right: whether the most probable option is the one that is right.
        top: the largest probability.
        certainty: as `Prediction.certainty`.
        loss: -ln max(p of the label, 1e-12), in nats.
        squared: the sum over options of (p - 1 where it is right, else 0)^2, in [0, 2].
        predicate: whether the row is a predicate.
        true: a predicate's p(true); NaN for others.
        is_true: whether a predicate is true; False for others.
        groups: the groups' numbers, int64.
    """

    right: NDArray[np.bool_]
    top: Floats
    certainty: Floats
    loss: Floats
    squared: Floats
    predicate: NDArray[np.bool_]
    true: Floats
    is_true: NDArray[np.bool_]
    groups: Ints

    @classmethod
    def of(cls, predictions: Sequence[Prediction]) -> Judged:
        """The columns of predictions in a fixed order, whatever theirs. Raises ValueError on none."""
        if not predictions:
            raise ValueError("there is nothing to judge")
        rows = sorted(predictions)
        predicate = np.array([row.kind == "predicate" for row in rows])
        label = np.array([row.probabilities[row.label] for row in rows])
        return cls(
            right=np.array([row.right for row in rows]),
            top=np.array([row.top for row in rows]),
            certainty=np.array([row.certainty for row in rows]),
            loss=-np.log(np.maximum(label, FLOOR)),
            squared=np.array([_squared(row) for row in rows]),
            predicate=predicate,
            true=np.where(predicate, [row.probabilities[0] for row in rows], np.nan),
            is_true=predicate & np.array([row.label == 0 for row in rows]),
            groups=codes_of([row.group for row in rows]),
        )

    def take(self, places: Ints | NDArray[np.bool_]) -> Judged:
        """Some rows; one may be taken more than once."""
        return Judged(*(getattr(self, field.name)[places] for field in fields(self)))

    def __len__(self) -> int:
        return len(self.right)


def _squared(row: Prediction) -> float:
    return sum((p - (index == row.label)) ** 2 for index, p in enumerate(row.probabilities))
