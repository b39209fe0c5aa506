"""Base against tuned on questions that neither learning nor stopping has seen."""

from __future__ import annotations

from enum import Enum

from dicast_server.evaluation.comparison import Evaluation


class Verdict(Enum):
    """What the tuned model is beside the base.

    WORSE and BETTER go by the 95 % interval of the paired difference in log loss. A lower log loss with fewer
    right answers is FLATTER: a temperature does the same for less.
    """

    BETTER = "better"
    FLATTER = "flatter"
    NO_BETTER = "no better"
    WORSE = "worse"


def verdict(evaluation: Evaluation) -> Verdict:
    """The verdict on all questions; the first system is the base, the second the tuned one."""
    whole = evaluation.parts[0].differences
    change, right = whole["log_loss"], whole["accuracy"]
    if change.low > 0:
        return Verdict.WORSE
    if change.high >= 0:
        return Verdict.NO_BETTER
    return Verdict.BETTER if right.value >= 0 else Verdict.FLATTER
