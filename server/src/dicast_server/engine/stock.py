"""mlx-lm's own model in two steps, to what is read and from there to logits, where that changes no bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import mlx.core as mx
from mlx import nn

from dicast_server.engine.footprint import WholeForward

Run: TypeAlias = Callable[..., mx.array]
"""Token ids (rows, width) and caches to hidden states (rows, width, d), or to logits at once."""

_ROWS_TOLERANCE = 0.25
"""Most that a float32 label score may differ from the head's own logit."""


class Stock:
    """A model as mlx-lm runs it.

    It is split into trunk and head where they reproduce the model to the last bit; where they do not, as
    when it scales or caps its logits, the whole model runs and what is picked of it are logits already.

    `whole_forward` says what a forward of a whole prompt takes in memory.
    """

    def __init__(self, model: nn.Module, probe: Sequence[int]) -> None:
        """Find the way; `probe` are a few token ids to run the self-check on."""
        self.trunk: Run = model
        self._head: Any = None
        parts = _trunk_and_head(model)
        if parts is not None and _agrees(model, *parts, probe):
            self.trunk, self._head = parts

        self.whole_forward = _whole_forward(model)

    @property
    def split(self) -> bool:
        """Whether trunk and head run apart."""
        return self._head is not None

    def logits(self, picked: mx.array) -> mx.array:
        """Float32 logits (n, vocabulary) of n positions of what the trunk gave."""
        return (_logits(self._head, picked) if self.split else picked).astype(mx.float32)

    def scores(self, picked: mx.array, tokens: Sequence[int]) -> mx.array:
        """Float32 scores (n, tokens) of some tokens at n positions of what the trunk gave.

        Where the head is apart they are products in float32, which a half-precision head would round.
        """
        if self.split:
            return _label_rows(self._head, tokens, picked)
        return picked.astype(mx.float32)[:, mx.array(list(tokens))]


def _trunk_and_head(model: nn.Module) -> tuple[Run, Any] | None:
    """The parts of an mlx-lm model: text models have them at the top, multimodal ones one level down."""
    for owner in (model, getattr(model, "language_model", None)):
        trunk = getattr(owner, "model", None)
        if isinstance(trunk, nn.Module):
            head = getattr(owner, "lm_head", None) or getattr(trunk, "embed_tokens", None)
            if head is not None:
                return trunk, head
    return None


def _agrees(model: Run, trunk: Run, head: Any, probe: Sequence[int]) -> bool:
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
    except (AttributeError, TypeError, ValueError, LookupError):
        # An architecture of another build; its whole logits are always right.
        return False
    return cast(float, distance) <= _ROWS_TOLERANCE


def _whole_forward(model: nn.Module) -> WholeForward:
    """What a model's own settings say of its size; generous where they say nothing."""
    heads = _setting(model, "num_attention_heads", "num_heads", "n_heads", "n_head") or 64
    width = _setting(model, "hidden_size", "d_model", "n_embd", "dim") or 8192
    inner = _setting(model, "intermediate_size", "ffn_dim", "n_inner") or 4 * width
    sinks = any("sinks" in module for module in model.modules())
    return WholeForward.of_model(heads, width + inner, sinks)


def _setting(model: nn.Module, *names: str) -> int | None:
    """The first setting of these names; multimodal models have those of their text apart."""
    args = getattr(model, "args", None)
    text = getattr(args, "text_config", None)
    for settings in (text if isinstance(text, dict) else getattr(text, "__dict__", {}), vars(args or object)):
        for name in names:
            if isinstance(value := settings.get(name), int) and value > 0:
                return value
    return None


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
