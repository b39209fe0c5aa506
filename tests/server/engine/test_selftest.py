"""A model whose tails would be wrong is not read that way, or not at all."""

from typing import Any

import mlx.core as mx
import pytest
import tiny_models
from mlx import nn

from dicast_server.engine.head import Head
from dicast_server.engine.layers import AttentionView, RecurrentView
from dicast_server.engine.prefix import OpaquePrefix, empty_prefix, opaque_prefix
from dicast_server.engine.reader import Reader
from dicast_server.engine.selftest import tails_agree

PROBE = range(60, 68)


@pytest.mark.parametrize("family", list(tiny_models.FAMILIES))
@pytest.mark.parametrize("forward_tokens", [8, 128])
def test_every_family_agrees_both_ways(family: str, forward_tokens: int) -> None:
    model = tiny_models.family(family)
    head = Head(model, PROBE)
    assert tails_agree(head, empty_prefix(model), PROBE, forward_tokens)
    assert tails_agree(head, opaque_prefix(model), PROBE, forward_tokens)


def test_half_precision_agrees() -> None:
    model = tiny_models.family("qwen3")
    model.set_dtype(mx.bfloat16)
    assert Reader(model, PROBE).shares_forwards


def break_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AttentionView, "offset", property(lambda self: 0, lambda self, value: None), False)


def break_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AttentionView, "make_mask", lambda self, *args, **kwargs: None)


def break_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecurrentView, "__getitem__", lambda self, index: None)


@pytest.mark.parametrize(
    ("family", "breakage"),
    [("gemma3_text", break_positions), ("gemma3_text", break_masks), ("qwen3_5", break_states)],
)
def test_views_that_are_wrong_are_not_used(
    family: str, breakage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_models.family(family)
    assert Reader(model, PROBE).shares_forwards
    breakage(monkeypatch)
    assert not Reader(model, PROBE).shares_forwards


class Forgetful(nn.Module):  # type: ignore[misc] # mlx.nn has no types
    """A model that looks at nothing before its own tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = tiny_models.family("llama")

    def make_cache(self) -> Any:
        return [object()]

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        logits: mx.array = self.inner(tokens)
        return logits


def test_a_model_that_is_wrong_either_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpaquePrefix, "after", lambda self, caches, tokens: self)
    with pytest.raises(ValueError, match="differ from full forwards"):
        Reader(Forgetful(), PROBE)
