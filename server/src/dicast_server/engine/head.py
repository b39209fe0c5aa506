"""Label scores from a model's head: float32 rows of it where a self-check allows, else whole logits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import mlx.core as mx
from mlx import nn

from dicast_server.engine.cpu_trunk import CpuTrunk
from dicast_server.engine.layers import AttentionView

Trunk = Callable[..., mx.array]
"""A model without its head: token ids (rows, width) and caches to hidden states (rows, width, d)."""

_ROWS_TOLERANCE = 0.25
"""Most that a float32 label score may differ from the head's own logit."""


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

    def __init__(self, model: nn.Module, probe: Sequence[int], threads: int = 1) -> None:
        """Find the path; `probe` are a few token ids to run the self-check on.

        `threads` are those of a CPU that run a forward.
        """
        self._model: Callable[..., mx.array] = model
        self._trunk: Trunk | None = None
        self._cpu_trunk: CpuTrunk | None = None
        self._module: Any = None
        parts = _trunk_and_head(model)
        if parts is not None and _agrees(model, *parts, probe):
            self._trunk, self._module = parts
            faster = CpuTrunk.of(model, threads)
            if faster is not None and _close(faster, self._trunk, probe):
                self._cpu_trunk = faster

    @property
    def path(self) -> str:
        """How scores are computed: "rows" or "logits"."""
        return "logits" if self._trunk is None else "rows"

    @property
    def runs_on(self) -> str:
        """The type of what runs over prefixes, for the log."""
        return type(self._cpu_trunk or self._trunk or self._model).__name__

    @property
    def pads(self) -> bool:
        """Whether a forward computes all rows up to the longest."""
        return self._cpu_trunk is None

    def forward(self, rows: Sequence[Sequence[int]], caches: Sequence[Any]) -> mx.array:
        """Run rows of token ids: what `read` reads at the end of each, (rows, d or vocabulary).

        Shorter rows are padded on the right where they are padded at all: causal attention and recurrence
        never let a later position reach an earlier one.
        """
        if self._cpu_trunk is not None and all(isinstance(cache, AttentionView) for cache in caches):
            return self._cpu_trunk(rows, caches)
        width = max(len(row) for row in rows)
        padded = [[*row, *itertools.repeat(0, width - len(row))] for row in rows]
        run = self._trunk or self._model
        output = run(mx.array(padded), cache=list(caches))
        return output[mx.arange(len(rows)), mx.array([len(row) - 1 for row in rows])]

    def read(self, last: mx.array, labels: Sequence[Sequence[int]]) -> list[LabelScores]:
        """Score each row's labels at its last position; `last` is (rows, d or vocabulary). Evaluates."""
        everything = sorted({label for row in labels for label in row})
        column = {label: place for place, label in enumerate(everything)}
        if self._trunk is None:
            logits = last.astype(mx.float32)
            scores = logits[:, mx.array(everything)]
        else:
            logits = _logits(self._module, last).astype(mx.float32)
            scores = _label_rows(self._module, everything, last)
        total = mx.logsumexp(logits, axis=-1)
        mx.eval(scores, total)
        rows = cast(list[list[float]], scores.tolist())
        totals = cast(list[float], total.tolist())
        return [
            _scored([row[column[label]] for label in wanted], sum_)
            for row, sum_, wanted in zip(rows, totals, labels, strict=True)
        ]


def _scored(values: list[float], total: float) -> LabelScores:
    # Rows and logits may differ by rounding, so that the labels' share may pass 1 in its last bits.
    mass = sum(math.exp(value - total) for value in values) if math.isfinite(total) else math.nan
    return LabelScores(tuple(values), min(1.0, mass) if math.isfinite(mass) else mass)


def _trunk_and_head(model: nn.Module) -> tuple[Trunk, Any] | None:
    """The parts of an mlx-lm model: text models have them at the top, multimodal ones one level down."""
    for owner in (model, getattr(model, "language_model", None)):
        trunk = getattr(owner, "model", None)
        if isinstance(trunk, nn.Module):
            head = getattr(owner, "lm_head", None) or getattr(trunk, "embed_tokens", None)
            if head is not None:
                return trunk, head
    return None


def _agrees(model: Callable[..., mx.array], trunk: Trunk, head: Any, probe: Sequence[int]) -> bool:
    """Whether trunk and head give the model's own logits, and float32 rows come close to them."""
    tokens = mx.array([list(probe)])
    labels = list(probe)
    try:
        whole = model(tokens)[0, -1]
        hidden = trunk(tokens)
        logits = _logits(head, hidden)[0, -1]
        rows = _label_rows(head, labels, hidden[:, -1])[0]
        if not mx.array_equal(whole, logits).item():
            return False
        distance = mx.max(mx.abs(rows - whole[mx.array(labels)].astype(mx.float32))).item()
    except (AttributeError, TypeError, ValueError, IndexError):
        # An architecture of another build; its whole logits are always right.
        return False
    return cast(float, distance) <= _ROWS_TOLERANCE


def _close(trunk: CpuTrunk, reference: Trunk, probe: Sequence[int]) -> bool:
    """Whether two trunks give the same hidden states at the end, up to the rounding of float32."""
    last = reference(mx.array([list(probe)]))[:, -1]
    return bool(mx.allclose(trunk([probe]), last, rtol=1e-3, atol=1e-3).item())


def _logits(head: Any, hidden: mx.array) -> mx.array:
    result: mx.array = head.as_linear(hidden) if hasattr(head, "as_linear") else head(hidden)
    return result


def _label_rows(head: Any, labels: Sequence[int], hidden: mx.array) -> mx.array:
    """Float32 scores (rows, labels) of hidden states (rows, d) against the head's rows of the labels."""
    ids = mx.array(list(labels))
    if isinstance(head, nn.QuantizedLinear | nn.QuantizedEmbedding):
        biases = head.get("biases")
        weight = mx.dequantize(
            head["weight"][ids],
            head["scales"][ids],
            biases[ids] if biases is not None else None,
            group_size=head.group_size,
            bits=head.bits,
            mode=head.mode,
        )
    else:
        weight = head["weight"][ids]
    scores = hidden.astype(mx.float32) @ weight.astype(mx.float32).T
    return scores + head["bias"][ids].astype(mx.float32) if "bias" in head else scores
