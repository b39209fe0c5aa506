"""The offset of predicates, as a server applies it: without NumPy, so that what is pure may import it."""

from __future__ import annotations

import math


def shifted(probability: float, offset: float) -> float:
    """sigmoid(logit(probability) + offset) in float64; 0 and 1 stay, and so does all under an offset of 0."""
    if offset == 0.0 or probability <= 0.0 or probability >= 1.0:
        return probability
    logit = math.log(probability) - math.log1p(-probability) + offset
    if logit >= 0.0:
        return 1.0 / (1.0 + math.exp(-logit))
    # Of a large negative logit exp(-logit) would overflow.
    odds = math.exp(logit)
    return odds / (1.0 + odds)
