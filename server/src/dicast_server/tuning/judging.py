"""What was read of questions, as predictions that can be judged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dicast_server.calibration.prediction import Prediction
from dicast_server.engine.learning.reading import Read
from dicast_server.tuning.lessons import Planned


def predictions(rows: Sequence[Planned], reads: Sequence[Read]) -> list[Prediction]:
    """What was read of some questions, at temperature 1."""
    found = []
    for row, read in zip(rows, reads, strict=True):
        own = np.exp(read.log_probabilities)
        own /= own.sum()
        by_option = dict(zip(row.options, own.tolist(), strict=True))
        question = row.question
        found.append(
            Prediction(
                question.id,
                question.group,
                question.kind,
                question.label,
                tuple(by_option[option] for option in range(question.options)),
            )
        )
    return found
