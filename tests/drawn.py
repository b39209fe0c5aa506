"""Labelled scores with a known truth: labels are drawn from the softmax of what the scores are made of."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dicast_server.calibration.kinds import Kind
from dicast_server.calibration.prediction import Prediction
from dicast_server.calibration.rows import ScoredRow

MIX: tuple[tuple[Kind, int], ...] = (
    ("predicate", 2),
    ("choice", 3),
    ("choice", 6),
    ("choice", 12),
    ("score", 5),
)


def rows(
    count: int,
    seed: int,
    kinds: Sequence[tuple[Kind, int]] = MIX,
    *,
    sharpened: float | Mapping[Kind, float] | Callable[[Kind, int], float] = 1.0,
    bias: float = 0.0,
    signal: float = 1.0,
    spread: float = 1.5,
    group: int = 1,
) -> list[ScoredRow]:
    """`count` rows whose scores are normal logits times `sharpened`; the logits times `signal` are true.

    `bias` is added to what a predicate scores for true. `group` rows in a row are of one group.
    """
    generator = np.random.default_rng(seed)
    found = []
    for index in range(count):
        kind, options = kinds[index % len(kinds)]
        logits = generator.normal(0.0, spread, options)
        p = np.exp(signal * logits)
        label = int(generator.choice(options, p=p / p.sum()))
        if callable(sharpened):
            by = sharpened(kind, options)
        else:
            by = sharpened if isinstance(sharpened, float) else sharpened[kind]
        scores = logits * by
        if kind == "predicate":
            scores[0] += bias
        found.append(ScoredRow(kind, f"g{index // group}", f"r{index}", label, (tuple(scores.tolist()),)))
    return found


def predictions(
    count: int, generator: np.random.Generator, options: int = 4, spread: float = 2.5, power: float = 1.0
) -> list[Prediction]:
    """Choices whose labels are drawn from p, with p^power, normalised, as their probabilities."""
    logits = generator.normal(0.0, spread, (count, options))
    p = np.exp(logits)
    p /= p.sum(axis=1, keepdims=True)
    labels = (p.cumsum(axis=1) < generator.random((count, 1))).sum(axis=1)
    stated = np.exp(power * logits)
    stated /= stated.sum(axis=1, keepdims=True)
    return [
        Prediction(f"r{index}", f"g{index}", "choice", int(labels[index]), tuple(stated[index].tolist()))
        for index in range(count)
    ]
