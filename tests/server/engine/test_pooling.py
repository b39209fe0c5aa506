"""Means over spans are those of one full forward, and their bits do not change with how they are read."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import tiny_models
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx import nn
from mlx_lm.models.cache import make_prompt_cache
from numpy.typing import NDArray
from reading import LABELS, VOCABULARY, WithOddCaches, read, read_work, tokens

from dicast_server.decisions.passes import Pass, Scores
from dicast_server.engine import reader as reader_module
from dicast_server.engine.outputs import Outputs, everywhere, means
from dicast_server.engine.reader import Kept, Prewarming, Reader, Tally, alone
from dicast_server.engine.store import PrefixStore

LLAMA = tiny_models.family("llama", VOCABULARY)
PREFIX = tokens(100, 1)
CLOSE = 3e-5
"""A single token's outputs, of up to 4, differ so between float32 in NumPy and in MLX; means far less."""


def pooling(model: nn.Module = LLAMA, forward_tokens: int = 32, budget: int = 2**30) -> Reader:
    store = PrefixStore(budget, lambda: 0.0)
    return Reader(model, LABELS[:8], forward_tokens, store, pools=True)


def spanned(prefix: tuple[int, ...], length: int, seed: int) -> Pass:
    """A pass whose spans lie in the prefix, across its end, behind it, nowhere, and at the end."""
    at, end = len(prefix), len(prefix) + length
    spans = ((min(3, at), at), (at // 2, at + length // 2), (at, end), (end, end), (end - 1, end))
    return Pass(prefix + tokens(length, seed), spans=spans)


def passes_over(prefix: tuple[int, ...], lengths: Sequence[int]) -> list[Pass]:
    return [spanned(prefix, length, 50 + seed) for seed, length in enumerate(lengths)]


def by_one_forward(model: nn.Module, pass_: Pass) -> NDArray[np.float64]:
    """The means of mlx-lm's own trunk, (spans, d)."""
    outputs = np.array(model.model(mx.array([pass_.tokens]))[0].astype(mx.float32)).astype(np.float64)
    empty = np.zeros(outputs.shape[1])
    return np.array([outputs[start:end].mean(axis=0) if start < end else empty for start, end in pass_.spans])


def bits(scores: dict[int, Scores]) -> dict[int, tuple[tuple[float, ...], ...]]:
    return {index: each.means for index, each in scores.items()}


@pytest.mark.parametrize("forward_tokens", [32, 320])
@pytest.mark.parametrize("isolated", [False, True])
def test_means_equal_one_full_forward(forward_tokens: int, isolated: bool) -> None:
    passes = passes_over(PREFIX, [3, 9, 10, 31, 75])
    scores, tally, steps = read(pooling(forward_tokens=forward_tokens), PREFIX, passes, isolated)
    for index, pass_ in enumerate(passes):
        found = scores[index]
        assert np.array(found.means) == pytest.approx(by_one_forward(LLAMA, pass_), abs=CLOSE)
        assert (found.values, found.mass, found.finite) == ((), 1.0, True)
    assert tally.input_tokens == 100 + 128
    if isolated and forward_tokens == 320:
        assert [len(step) for step in steps] == [0, 1, 1, 1, 1, 1]


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 80),
    st.lists(st.integers(1, 50), min_size=1, max_size=5),
    st.sampled_from([16, 32, 128]),
    st.booleans(),
)
def test_any_lengths_in_any_forward_size(
    prefix_length: int, lengths: list[int], forward_tokens: int, isolated: bool
) -> None:
    prefix = tokens(prefix_length, 2)
    passes = passes_over(prefix, lengths)
    scores, _, _ = read(pooling(forward_tokens=forward_tokens), prefix, passes, isolated)
    for index, pass_ in enumerate(passes):
        assert np.array(scores[index].means) == pytest.approx(by_one_forward(LLAMA, pass_), abs=CLOSE)


def test_a_kept_prefix_gives_the_same_bits_as_a_fresh_one() -> None:
    passes = passes_over(PREFIX, [5, 40, 9])
    fresh, *_ = read(pooling(budget=0), PREFIX, passes)
    reader = pooling()
    first, *_ = read(reader, PREFIX, passes)
    kept, tally, _ = read(reader, PREFIX, passes)
    assert tally.cached_tokens == 100
    assert bits(fresh) == bits(first) == bits(kept)


def test_a_state_that_grows_gives_the_bits_of_a_fresh_one() -> None:
    reader = pooling()
    read(reader, PREFIX[:70], passes_over(PREFIX[:70], [5]))
    passes = passes_over(PREFIX, [5, 8])
    resumed, tally, _ = read(reader, PREFIX, passes)
    fresh, *_ = read(pooling(), PREFIX, passes)
    assert tally.cached_tokens == 64
    assert bits(resumed) == bits(fresh)


def test_isolated_rows_do_not_feel_their_neighbours_at_all() -> None:
    reader = pooling()
    passes = passes_over(PREFIX, [5, 9, 10, 40])
    together, *_ = read(reader, PREFIX, passes, isolated=True)
    beside, *_ = read(reader, PREFIX, passes)
    for index, pass_ in enumerate(passes):
        single, *_ = read(reader, PREFIX, [pass_], isolated=True)
        assert single[0].means == together[index].means
        assert np.array(beside[index].means) == pytest.approx(np.array(single[0].means), abs=CLOSE)


def test_a_prewarmed_prefix_has_what_means_need() -> None:
    reader = pooling()
    assert [Kept()] in list(alone(reader.prewarm(Prewarming(PREFIX, b"", 60.0), Tally())))
    passes = passes_over(PREFIX, [5, 9])
    warm, tally, _ = read(reader, PREFIX, passes)
    cold, *_ = read(pooling(), PREFIX, passes)
    assert tally.cached_tokens == 100
    assert bits(warm) == bits(cold)


def test_the_reference_agrees() -> None:
    reader = pooling()
    passes = passes_over(PREFIX, [3, 40, 9])
    fast, *_ = read(reader, PREFIX, passes)
    whole, tally, _ = read_work(reader, passes, (PREFIX,), independent=True)
    for index in range(len(passes)):
        assert np.array(fast[index].means) == pytest.approx(np.array(whole[index].means), abs=1e-4)
        assert whole[index].forwards == (index,)
    assert tally.input_tokens == 300 + 52


def test_a_pass_that_continues_no_prefix_is_read_alone() -> None:
    other = spanned(tokens(12, 9), 60, 10)
    scores, *_ = read(pooling(), PREFIX, [spanned(PREFIX, 5, 3), other])
    assert np.array(scores[1].means) == pytest.approx(by_one_forward(LLAMA, other), abs=CLOSE)


def test_other_caches_and_precisions() -> None:
    passes = passes_over(PREFIX, [5, 9, 50])
    scores, *_ = read(pooling(WithOddCaches(LLAMA)), PREFIX, passes)
    for index, pass_ in enumerate(passes):
        assert np.array(scores[index].means) == pytest.approx(by_one_forward(LLAMA, pass_), abs=CLOSE)
    half = tiny_models.family("llama", VOCABULARY)
    half.set_dtype(mx.bfloat16)
    scores, *_ = read(pooling(half), PREFIX, passes)
    for index, pass_ in enumerate(passes):
        assert np.array(scores[index].means) == pytest.approx(by_one_forward(half, pass_), abs=0.1)


def test_labels_are_read_as_ever_beside_spans() -> None:
    labelled = Pass(PREFIX + tokens(9, 4), LABELS[:4])
    mixed, *_ = read(pooling(), PREFIX, [labelled, spanned(PREFIX, 5, 3)])
    plain, *_ = read(Reader(LLAMA, LABELS[:8], 32), PREFIX, [labelled])
    assert mixed[0].values == plain[0].values


@pytest.mark.parametrize("opaque", [False, True])
def test_outputs_are_counted(opaque: bool) -> None:
    reader = pooling(WithOddCaches(LLAMA) if opaque else LLAMA)
    plain = Reader(WithOddCaches(LLAMA) if opaque else LLAMA, LABELS[:8], 32)
    width = LLAMA.args.hidden_size * 4
    more = replace(plain.footprint, token_bytes=plain.footprint.token_bytes + width)
    assert reader.footprint == more
    if not opaque:
        read(reader, PREFIX, passes_over(PREFIX, [5]))
        read(plain, PREFIX, [Pass((*PREFIX, 1), LABELS[:4])])
        assert reader.store.counters.nbytes == reader.footprint.of(100)


class Scaled(WithOddCaches):
    """A model that does something to its logits after the head: it is read whole."""

    def make_cache(self) -> Any:
        return make_prompt_cache(self.inner)

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        return super().__call__(tokens, cache) * 0.5


def test_a_model_that_is_no_trunk_and_head_is_not_pooled() -> None:
    assert Reader(Scaled(LLAMA), LABELS[:8], 32).head.path == "logits"
    with pytest.raises(ValueError, match="hidden states cannot be read"):
        pooling(Scaled(LLAMA))


def test_outputs_that_differ_are_not_pooled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "outputs_agree", lambda *args: False)
    with pytest.raises(ValueError, match="hidden states cannot be read"):
        pooling()
    Reader(LLAMA, LABELS[:8], 32)


def test_sums_do_not_depend_on_what_was_asked_before() -> None:
    rows = np.random.default_rng(3).normal(size=(50, 6)).astype(np.float32)
    pieces = [Outputs(rows[:20]), Outputs(rows[20:40]), Outputs(rows[40:])]
    spans = ((0, 50), (0, 20), (5, 45), (20, 20), (49, 50))
    first = means(pieces, spans)
    assert first == means(pieces, spans)
    for (start, end), mean in zip(spans, first, strict=True):
        expected = rows[start:end].astype(np.float64).mean(axis=0) if start < end else np.zeros(6)
        assert np.array(mean) == pytest.approx(expected, abs=1e-14)
    with pytest.raises(ValueError, match="ends at token 51"):
        means(pieces, ((0, 51),))


def test_everywhere_is_row_by_row() -> None:
    assert everywhere([(7, 8), (9,)]) == [(0, 0), (0, 1), (1, 0)]


def test_a_pass_reads_one_kind_of_thing() -> None:
    with pytest.raises(ValueError, match="or spans"):
        Pass((1, 2), labels=(1,), spans=((0, 1),))
    for span in ((-1, 1), (1, 0), (0, 3)):
        with pytest.raises(ValueError, match="range of the prompt's tokens"):
            Pass((1, 2), spans=(span,))


def test_an_adapters_reader_pools_beside_one_that_does_not() -> None:
    base = Reader(LLAMA, LABELS[:8], 32)
    assert len(list(base.adapt(LLAMA, 1, pools=True))) == 1
    passes = [spanned(PREFIX, 5, 3)]
    scores, *_ = read(base.beside(1), PREFIX, passes)
    expected, *_ = read(pooling(), PREFIX, passes)
    assert bits(scores) == bits(expected)
