"""Heads of the pooled readout with random numbers, for tests."""

import numpy as np
from numpy.typing import NDArray

from dicast_server.readouts.pooled_head import PooledHead


def tensors(size: int, rank: int = 3, seed: int = 0) -> dict[str, NDArray[np.float64]]:
    """The tensors of a head for hidden states of `size` numbers; no two alike."""
    draw = np.random.default_rng(seed)
    made: dict[str, NDArray[np.float64]] = {
        "centre": draw.normal(size=(3, size)) * 0.1,
        "spread": draw.uniform(0.5, 2.0, size=(3, size)),
        "likeness": draw.normal(size=(2, size)),
        "weight": draw.normal(size=3),
        "offset": draw.normal(size=1),
    }
    for name in ("gate", "mix", "claim"):
        made[f"{name}_in"] = draw.normal(size=(rank, size)) / size
        made[f"{name}_out"] = draw.normal(size=(size, rank))
    return made


def head(size: int, seed: int = 0) -> PooledHead:
    """A random head."""
    return PooledHead.of(tensors(size, seed=seed))
