"""The reference: each prompt whole, in one forward of mlx-lm's own model, and all logits in float32.

Nothing is shared with the way that requests are read otherwise: no cache, no view, no prefix, no store, no
rows side by side. What one way makes of a request can be held against the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from dicast_server.decisions.passes import Pass, Scores
from dicast_server.engine.outputs import Outputs, means
from dicast_server.engine.progress import Progress, Result, Turns
from dicast_server.engine.stock import Stock

_POSITIONS = 64
"""The most positions whose logits are there at once."""


def read_independently(stock: Stock, pass_: Pass, progress: Progress[Result]) -> Turns[Result, Scores]:
    """Read a pass: a forward of its prompt, or one a candidate of the prompt and all but its last token."""
    first = progress.tally.forwards
    values: list[float] = []
    mass = 0.0
    for continuation in pass_.candidates or ((),):
        yield from progress.turn()
        prompt = (*pass_.tokens, *continuation[:-1])
        hidden = stock.trunk(mx.array([prompt]))[0]
        progress.count()
        progress.tally.input_tokens += len(prompt)
        if pass_.spans:
            found = means([Outputs.of(hidden)], pass_.spans)
            return Scores((), 1.0, (first,), means=found)
        if continuation:
            value = _log_probability(stock, hidden[len(pass_.tokens) - 1 :], continuation)
            values.append(value)
            mass += math.exp(value)
        else:
            (logits,) = _logits(stock, hidden[-1:])
            values = [float(logits[label]) for label in pass_.labels]
            total = _log_sum(logits)
            mass = sum(math.exp(value - total) for value in values) if math.isfinite(total) else math.nan
    serials = tuple(range(first, progress.tally.forwards))
    return Scores(tuple(values), mass if math.isnan(mass) else min(1.0, mass), serials)


def _log_probability(stock: Stock, hidden: mx.array, tokens: Sequence[int]) -> float:
    """That of tokens in turn, each read at its place in (tokens, d or vocabulary)."""
    total = 0.0
    for start in range(0, len(tokens), _POSITIONS):
        logits = _logits(stock, hidden[start : start + _POSITIONS])
        for row, token in zip(logits, tokens[start:], strict=False):
            total += float(row[token]) - _log_sum(row)
    return total


def _logits(stock: Stock, hidden: mx.array) -> NDArray[np.float32]:
    """Those of (n, d or vocabulary): (n, vocabulary)."""
    return np.array(stock.logits(hidden))


def _log_sum(logits: NDArray[np.float32]) -> float:
    """The logarithm of the sum of the exponentials of logits (vocabulary)."""
    largest = logits.max()
    with np.errstate(all="ignore"):
        return float(largest + np.log(np.exp(logits - largest).sum(dtype=np.float64)))
