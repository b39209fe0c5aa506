"""What is read of a model: labels at the ends of rows, and tokens at any of their positions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import mlx.core as mx
from mlx import nn

from dicast_server.engine.cpu_trunk import CpuTrunk
from dicast_server.engine.layers import AttentionView
from dicast_server.engine.stock import Run, Stock

_BLOCK = 256

READ_POSITIONS = 64
"""The most positions whose whole logits are there at once where tokens are read.

With 150,000 tokens in the vocabulary that is 37 MiB in float32, some three times over while they are summed.
"""


@dataclass(frozen=True, slots=True)
class LabelScores:
    """Scores of one row: logits of its labels, and their share of the whole vocabulary's probability."""

    values: tuple[float, ...]
    mass: float


class Head:
    """Runs a model up to what is read of it.

    Path "rows": the trunk alone runs over prefixes, and a label's score is the float32 product of the
    last hidden state with the label's row of the head: a half-precision head would round it. Path
    "logits": the whole model runs and the labels' columns are picked; taken where trunk and head do not
    reproduce the model to the last bit, as when it scales or caps its logits.
    """

    def __init__(
        self, model: nn.Module, probe: Sequence[int], threads: int = 1, base: CpuTrunk | None = None
    ) -> None:
        """Find the path; `probe` are a few token ids to run the self-check on.

        `threads` are those of a CPU that run a forward; `base` is what runs the model without its
        adapter.
        """
        self.stock = Stock(model, probe)
        self.cpu_trunk: CpuTrunk | None = None
        if self.stock.split:
            faster = CpuTrunk.of(model, threads, base)
            if faster is not None and _close(faster, self.stock.trunk, probe):
                self.cpu_trunk = faster

    @property
    def path(self) -> str:
        """How scores are computed: "rows" or "logits"."""
        return "rows" if self.stock.split else "logits"

    @property
    def runs_on(self) -> str:
        """The type of what runs over prefixes, for the log."""
        return type(self.cpu_trunk or self.stock.trunk).__name__

    @property
    def pads(self) -> bool:
        """Whether a forward computes all rows up to the longest."""
        return self.cpu_trunk is None

    def forward(
        self,
        rows: Sequence[Sequence[int]],
        caches: Sequence[Any],
        at: Sequence[tuple[int, int]] | None = None,
    ) -> mx.array:
        """Run rows of token ids.

        Shorter rows are padded on the right where they are padded at all: causal attention and recurrence
        never let a later position reach an earlier one.

        Args:
            rows: token ids of each row.
            caches: what the rows run over, one a layer.
            at: where something is read, each a row and a position in it; by default the end of each row.

        Returns:
            What `read` and `log_probabilities` read there, (places, d or vocabulary).
        """
        if at is None:
            at = [(row, len(tokens) - 1) for row, tokens in enumerate(rows)]
        if self.cpu_trunk is not None and all(isinstance(cache, AttentionView) for cache in caches):
            return self.cpu_trunk(rows, caches, at)
        width = max(len(row) for row in rows)
        padded = [[*row, *itertools.repeat(0, width - len(row))] for row in rows]
        output = self.stock.trunk(mx.array(padded), cache=list(caches))
        places = mx.array(list(at), dtype=mx.int32).reshape(len(at), 2)
        return output[places[:, 0], places[:, 1]]

    def read(self, last: mx.array, labels: Sequence[Sequence[int]]) -> list[LabelScores]:
        """Score each row's labels at its last position; `last` is (rows, d or vocabulary). Evaluates."""
        everything, column = _columns(labels)
        scores = self.stock.scores(last, everything)
        total = _log_totals(self.stock.logits(last))
        mx.eval(scores, total)
        rows = cast(list[list[float]], scores.tolist())
        totals = cast(list[float], total.tolist())
        return [
            _scored([row[column[label]] for label in wanted], sum_)
            for row, sum_, wanted in zip(rows, totals, labels, strict=True)
        ]

    def log_probabilities(self, picked: mx.array, tokens: Sequence[Sequence[int]]) -> list[list[float]]:
        """The log-probabilities of some token ids at each of the positions of `picked`.

        `picked` is (positions, d or vocabulary), read by 64 positions at once. Scores and the logarithm of
        the sum of all exponentials are float32, their difference is taken in float64. Evaluates.
        """
        found: list[list[float]] = []
        for start in range(0, len(tokens), READ_POSITIONS):
            here = slice(start, start + READ_POSITIONS)
            everything, column = _columns(tokens[here])
            scores = self.stock.scores(picked[here], everything)
            logits = self.stock.logits(picked[here])
            # The head may round what the scores do not: in the sum they count as they are.
            logits[:, mx.array(everything)] = scores
            total = _log_totals(logits)
            mx.eval(scores, total)
            rows = cast(list[list[float]], scores.tolist())
            totals = cast(list[float], total.tolist())
            found += [
                [row[column[token]] - sum_ for token in wanted]
                for row, sum_, wanted in zip(rows, totals, tokens[here], strict=True)
            ]
        return found


def _columns(wanted: Sequence[Sequence[int]]) -> tuple[list[int], dict[int, int]]:
    """All token ids that are wanted, ascending, and the column of each."""
    everything = sorted({token for tokens in wanted for token in tokens})
    return everything, {token: place for place, token in enumerate(everything)}


def _log_totals(logits: mx.array) -> mx.array:
    """The logarithm of the sum of all exponentials of each row, (rows,), to float32's precision.

    MLX adds up a row one by one on a CPU, which for a vocabulary is off by 1e-4; in blocks it is not.
    """
    rows, vocabulary = logits.shape
    padded = mx.pad(logits, [(0, 0), (0, -vocabulary % _BLOCK)], constant_values=-math.inf)
    return mx.logsumexp(mx.logsumexp(padded.reshape(rows, -1, _BLOCK), axis=-1), axis=-1)


def _scored(values: list[float], total: float) -> LabelScores:
    # Rows and logits may differ by rounding, so that the labels' share may pass 1 in its last bits.
    mass = sum(math.exp(value - total) for value in values) if math.isfinite(total) else math.nan
    return LabelScores(tuple(values), min(1.0, mass) if math.isfinite(mass) else mass)


def _close(trunk: CpuTrunk, reference: Run, probe: Sequence[int]) -> bool:
    """Whether two trunks give the same hidden states at the end, up to the rounding of float32."""
    last = reference(mx.array([list(probe)]))[:, -1]
    return bool(mx.allclose(trunk([probe]), last, rtol=1e-3, atol=1e-3).item())
