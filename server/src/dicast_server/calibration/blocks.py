"""From raw scores to probabilities, many rows at once: exactly what serving computes for one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dicast_server.calibration.kinds import Kind
from dicast_server.calibration.rows import ScoredRow
from dicast_server.calibration.table import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FLOOR = 1e-12
"""Probabilities below it cost no more: one row must not decide a fit."""


@dataclass(frozen=True, slots=True)
class Constants:
    """What a server applies without a fit: a profile's constants (`readouts.profile`), for letters.

    A fitted temperature takes the place of `temperature`. Clamp and slope of predicates stay in force, and
    the fitted offset comes after them.
    """

    temperature: float = 1.0
    predicate_slope: float = 1.0
    predicate_clamp: float = 0.0


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one kind, one number of options and one number of passes.

    `scores` is float64 (rows, passes, options), `labels` int64 (rows,), `places` int64 (rows,): where each
    row stands in the sequence that was packed.
    """

    kind: Kind
    scores: Floats
    labels: Ints
    places: Ints

    @property
    def options(self) -> int:
        """How many options the rows have."""
        return int(self.scores.shape[2])


def pack(rows: Sequence[ScoredRow]) -> tuple[Block, ...]:
    """Rows as blocks."""
    places: dict[tuple[Kind, int, int], list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault((row.kind, row.options, len(row.scores)), []).append(place)
    return tuple(
        Block(
            kind,
            np.array([rows[place].scores for place in found], dtype=np.float64),
            np.array([rows[place].label for place in found], dtype=np.int64),
            np.array(found, dtype=np.int64),
        )
        for (kind, _, _), found in sorted(places.items())
    )


def log_probabilities(
    block: Block, temperature: float, offset: float = 0.0, constants: Constants | None = None
) -> Floats:
    """The logarithms of all options' probabilities, float64 (rows, options); finite.

    p = mean over passes of softmax(scores / temperature). A predicate's logit is then clamped and divided by
    the slope as `readouts.scores.predicate_probability` does, and the offset is added.
    """
    if block.kind != "predicate":
        return _mean_softmax(block.scores, temperature)
    logits = predicate_logits(block, temperature, constants or Constants()) + offset
    # ln sigmoid(x) = -ln(1 + exp(-x)), without overflow.
    found: Floats = np.stack([-np.logaddexp(0.0, -logits), -np.logaddexp(0.0, logits)], axis=1)
    return found


def predicate_logits(block: Block, temperature: float, constants: Constants) -> Floats:
    """ln(p(true) / p(false)) of each predicate, float64 (rows,): behind clamp and slope, before an offset."""
    logs = _mean_softmax(block.scores, temperature)
    logits: Floats = logs[:, 0] - logs[:, 1]
    if constants.predicate_clamp > 0.0:
        most = np.log1p(-constants.predicate_clamp) - np.log(constants.predicate_clamp)
        logits = np.clip(logits, -most, most)
    return logits / constants.predicate_slope


def label_losses(logs: Floats, labels: Ints) -> Floats:
    """-ln max(p of the label, FLOOR) of each row, float64 (rows,), in nats."""
    of_label = logs[np.arange(len(labels)), labels]
    losses: Floats = -np.maximum(of_label, np.log(FLOOR))
    return losses


def losses_under(blocks: Sequence[Block], table: Table, constants: Constants, count: int) -> Floats:
    """The log losses of `count` packed rows under a table, float64 (count,), in their order."""
    losses = np.zeros(count)
    for block in blocks:
        applied = table.of(block.kind, block.options)
        logs = log_probabilities(block, applied.temperature, applied.offset, constants)
        losses[block.places] = label_losses(logs, block.labels)
    return losses


def probabilities_under(
    blocks: Sequence[Block], table: Table, constants: Constants, count: int
) -> list[tuple[float, ...]]:
    """The probabilities of `count` packed rows under a table, in their order; each row's sum to 1."""
    found: list[tuple[float, ...]] = [()] * count
    for block in blocks:
        applied = table.of(block.kind, block.options)
        values = np.exp(log_probabilities(block, applied.temperature, applied.offset, constants))
        values /= values.sum(axis=1, keepdims=True)
        for place, row in zip(block.places, values, strict=True):
            found[int(place)] = tuple(row.tolist())
    return found


def _mean_softmax(scores: Floats, temperature: float) -> Floats:
    """The logarithm of the mean over passes of the softmax: (rows, passes, options) to (rows, options)."""
    logs = scores / temperature
    logs -= logs.max(axis=2, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=2, keepdims=True))
    if logs.shape[1] == 1:
        alone: Floats = logs[:, 0, :]
        return alone
    top = logs.max(axis=1, keepdims=True)
    mean: Floats = np.log(np.exp(logs - top).mean(axis=1)) + top[:, 0, :]
    return mean
