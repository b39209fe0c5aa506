"""Which path a head takes, and that both give the model's own numbers."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import tiny_models
from mlx import nn

from dicast_server.engine.head import Head

LABELS = list(range(60, 112))
TOKENS = mx.array([[5, 6, 7, 8, 9]])


def tiny(**more: Any) -> nn.Module:
    return tiny_models.model(tiny_models.config("llama", 128, **more))


def scores(head: Head) -> Any:
    (read,) = head.read(head.forward([[5, 6, 7, 8, 9]], [None, None]), [LABELS])
    return np.array(read.values)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("quantized", [False, True])
def test_rows_of_the_head_give_the_models_own_logits(tied: bool, quantized: bool) -> None:
    model = tiny(tied=tied)
    if quantized:
        nn.quantize(model, group_size=32, bits=8)
    head = Head(model, LABELS[:8])
    assert head.path == "rows"
    assert scores(head) == pytest.approx(np.array(model(TOKENS)[0, -1])[LABELS], abs=1e-4)


def test_half_precision_rows_are_not_rounded_to_it() -> None:
    model = tiny()
    model.set_dtype(mx.bfloat16)
    head = Head(model, LABELS[:8])
    assert head.path == "rows"
    trunk = model.model(TOKENS)[:, -1].astype(mx.float32)
    exact = trunk @ model.model.embed_tokens.weight[mx.array(LABELS)].astype(mx.float32).T
    assert np.array_equal(scores(head), np.array(exact)[0])
    assert not np.array_equal(scores(head), np.array(model(TOKENS)[0, -1].astype(mx.float32))[LABELS])


class Scaled(nn.Module):  # type: ignore[misc] # mlx.nn has no types
    """A model that does something to its logits after the head."""

    def __init__(self, inner: nn.Module, scale: float) -> None:
        super().__init__()
        self.inner = inner
        self.model = inner.model
        self.scale = scale

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        logits: mx.array = self.inner(tokens, cache=cache) * self.scale
        return logits


def test_a_model_that_scales_its_logits_is_read_by_its_whole_logits() -> None:
    model = Scaled(tiny(), 0.5)
    head = Head(model, LABELS[:8])
    assert head.path == "logits"
    assert scores(head) == pytest.approx(np.array(model(TOKENS)[0, -1])[LABELS], abs=1e-6)


def test_a_model_without_known_parts_is_read_by_its_whole_logits() -> None:
    class Bare(nn.Module):  # type: ignore[misc] # mlx.nn has no types
        def __init__(self) -> None:
            super().__init__()
            self.body = tiny()

        def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
            logits: mx.array = self.body(tokens, cache=cache)
            return logits

    assert Head(Bare(), LABELS[:8]).path == "logits"


def test_the_mass_is_the_share_of_the_whole_vocabulary() -> None:
    model = tiny()
    head = Head(model, LABELS[:8])
    logits = np.array(model(TOKENS)[0, -1]).astype(np.float64)
    weights = np.exp(logits - logits.max())
    last = head.forward([[5, 6, 7, 8, 9]], [None, None])
    (some,) = head.read(last, [LABELS])
    (everything,) = head.read(last, [list(range(128))])
    assert some.mass == pytest.approx(weights[LABELS].sum() / weights.sum(), abs=1e-5)
    assert everything.mass == pytest.approx(1.0, abs=1e-5)
    assert everything.mass <= 1.0


def test_rows_with_labels_of_their_own() -> None:
    model = tiny()
    head = Head(model, LABELS[:8])
    last = head.forward([[5, 6], [7]], [None, None])
    first, second = head.read(last, [[61, 60], [70]])
    assert first.values == pytest.approx(np.array(model(mx.array([[5, 6]])))[0, -1, [61, 60]], abs=1e-5)
    assert second.values == pytest.approx(np.array(model(mx.array([[7]])))[0, -1, [70]], abs=1e-5)


def test_what_is_not_a_number_stays_visible() -> None:
    head = Head(tiny(), LABELS[:8])
    (read,) = head.read(mx.full((1, 64), float("nan")), [[60, 61]])
    assert np.isnan(read.mass)
