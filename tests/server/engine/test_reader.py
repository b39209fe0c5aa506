"""Reads over a shared prefix give what one full forward a prompt gives, and never touch the prefix."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import tiny_models
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx import nn

from dicast_server.decisions.passes import Pass, Scores
from dicast_server.engine import reader as reader_module
from dicast_server.engine.prefix import CopiedPrefix, SharedPrefix, fresh_caches, keep
from dicast_server.engine.reader import Reader, Tally, Work

VOCABULARY = 128
LABELS = tuple(range(60, 112))
TOLERANCE = 1e-4


class Once:
    """One round of passes, whose scores it keeps."""

    def __init__(self, passes: Sequence[Pass]) -> None:
        self._left: Sequence[Pass] = passes
        self.scores: dict[int, Scores] = {}

    def next_round(self) -> Sequence[Pass]:
        passes, self._left = self._left, []
        return passes

    def receive(self, index: int, scores: Scores) -> int:
        assert index not in self.scores
        self.scores[index] = scores
        return index


def tiny(family: str = "llama", **more: Any) -> nn.Module:
    return tiny_models.model(tiny_models.config(family, VOCABULARY, **more))


def tokens(count: int, seed: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(seed).integers(0, VOCABULARY, count).tolist())


def passes_over(prefix: tuple[int, ...], lengths: Sequence[int]) -> list[Pass]:
    return [Pass(prefix + tokens(n, seed), LABELS[: 2 + seed % 50]) for seed, n in enumerate(lengths)]


def read(
    reader: Reader, prefix: tuple[int, ...], passes: Sequence[Pass], isolated: bool = False
) -> tuple[dict[int, Scores], Tally, list[list[int]]]:
    rounds, tally = Once(passes), Tally()
    steps = list(reader.read(Work(prefix, rounds, isolated), tally))
    return rounds.scores, tally, steps


def log_probabilities(model: nn.Module, pass_: Pass) -> tuple[list[float], float]:
    """By one full forward, without any cache: the labels' log-probabilities and their mass."""
    logits = tiny_models.logits(model, list(pass_.tokens))[-1].astype(np.float64)
    whole = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
    chosen = whole[list(pass_.labels)]
    return chosen.tolist(), float(np.exp(chosen).sum())


def assert_same(model: nn.Module, pass_: Pass, scores: Scores) -> None:
    expected, mass = log_probabilities(model, pass_)
    values = np.array(scores.values)
    # Scores are logits: alike up to one number a row, which no softmax sees.
    assert values - values[0] == pytest.approx(np.array(expected) - expected[0], abs=TOLERANCE)
    assert scores.mass == pytest.approx(mass, abs=TOLERANCE)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [True, False])
def test_batched_tails_equal_full_forwards(family: str, tied: bool) -> None:
    model = tiny(family, tied=tied)
    prefix = tokens(150, 99)
    passes = passes_over(prefix, [3, 7, 12, 12, 20, 31, 4])
    scores, tally, steps = read(Reader(model, LABELS[:8]), prefix, passes)
    for index, pass_ in enumerate(passes):
        assert_same(model, pass_, scores[index])
    # 128 and 22 tokens of prefix, then two groups of tails.
    assert steps[:2] == [[], []]
    assert [sorted(step) for step in steps[2:]] == [[0, 1, 2, 3, 6], [4, 5]]
    assert tally == Tally(input_tokens=150 + 89, cached_tokens=0, forwards=4)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 200),
    st.lists(st.integers(1, 90), min_size=1, max_size=6),
    st.sampled_from([16, 32, 128]),
    st.booleans(),
)
def test_any_lengths_in_any_forward_size(
    prefix_length: int, lengths: list[int], forward_tokens: int, isolated: bool
) -> None:
    prefix = tokens(prefix_length, 98)
    passes = passes_over(prefix, lengths)
    scores, tally, _ = read(Reader(LLAMA, LABELS[:8], forward_tokens), prefix, passes, isolated)
    for index, pass_ in enumerate(passes):
        assert_same(LLAMA, pass_, scores[index])
    assert tally.input_tokens == prefix_length + sum(lengths)


LLAMA = tiny()


def test_the_same_request_gives_the_same_bits() -> None:
    prefix = tokens(140, 5)
    passes = passes_over(prefix, [9, 30, 31, 200])
    first, *_ = read(Reader(LLAMA, LABELS[:8]), prefix, passes)
    again, *_ = read(Reader(LLAMA, LABELS[:8]), prefix, passes)
    assert first == again


def test_isolated_rows_do_not_feel_their_neighbours_at_all() -> None:
    reader = Reader(LLAMA, LABELS[:8])
    prefix = tokens(40, 6)
    together, _, steps = read(reader, prefix, passes_over(prefix, [9, 10, 11]), isolated=True)
    assert [len(step) for step in steps] == [0, 1, 1, 1]
    for index, pass_ in enumerate(passes_over(prefix, [9, 10, 11])):
        alone, *_ = read(reader, prefix, [pass_], isolated=True)
        assert alone[0].values == together[index].values


def test_a_shared_prefix_stays_as_it_is_bit_for_bit() -> None:
    reader = Reader(LLAMA, LABELS[:8])
    caches = fresh_caches(LLAMA)
    reader.head.forward(mx.array([tokens(50, 7)]), caches)
    prefix = keep(caches, 50)
    assert isinstance(prefix, SharedPrefix)
    before = [(np.array(keys), np.array(values)) for keys, values in prefix.layers]
    for rows, growing in ((4, False), (1, True)):
        views = prefix.caches(rows, growing)
        mx.eval(reader.head.forward(mx.array([tokens(30, seed) for seed in range(rows)]), views))
        mx.eval(reader.head.forward(mx.array([tokens(30, seed) for seed in range(rows)]), views))
    for (keys, values), (old_keys, old_values) in zip(prefix.layers, before, strict=True):
        assert np.array_equal(np.array(keys), old_keys)
        assert np.array_equal(np.array(values), old_values)


def test_padding_on_the_right_changes_nothing() -> None:
    reader = Reader(LLAMA, LABELS[:8])
    prefix = tokens(20, 8)
    short, long = Pass(prefix + tokens(5, 1), LABELS[:9]), Pass(prefix + tokens(60, 2), LABELS[:9])
    caches = fresh_caches(LLAMA)
    reader.head.forward(mx.array([prefix]), caches)
    kept = keep(caches, len(prefix))
    padded = mx.array([[*short.tokens[20:], *[0] * 55], [*long.tokens[20:]]])
    other = mx.array([[*short.tokens[20:], *[77] * 55], [*long.tokens[20:]]])
    outputs = [reader.head.forward(rows, kept.caches(2, growing=False)) for rows in (padded, other)]
    assert np.array_equal(np.array(outputs[0][0, 4]), np.array(outputs[1][0, 4]))
    scores, *_ = read(reader, prefix, [short, long])
    assert_same(LLAMA, short, scores[0])


def test_a_pass_that_does_not_continue_the_prefix_is_read_alone() -> None:
    prefix = tokens(30, 9)
    passes = [
        Pass(prefix + tokens(5, 1), LABELS[:4]),
        Pass(tokens(200, 2), LABELS[:4]),
        Pass(prefix, LABELS[:4]),
    ]
    scores, tally, _ = read(Reader(LLAMA, LABELS[:8]), prefix, passes)
    for index, pass_ in enumerate(passes):
        assert_same(LLAMA, pass_, scores[index])
    assert tally.input_tokens == 30 + 5 + 200 + 30


def test_caches_without_a_view_run_row_by_row_on_copies() -> None:
    model = tiny(layer_types=["full_attention", "sliding_attention"], sliding_window=16)
    reader = Reader(model, LABELS[:8])
    assert not reader.shares_forwards
    prefix = tokens(40, 10)
    passes = passes_over(prefix, [5, 9, 150])
    scores, _, steps = read(reader, prefix, passes)
    for index, pass_ in enumerate(passes):
        assert_same(model, pass_, scores[index])
    assert [len(step) for step in steps] == [0, 1, 1, 0, 1]
    assert isinstance(keep(fresh_caches(model), 0), CopiedPrefix)


def test_copies_of_the_prefix_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = tokens(100, 11)
    passes = passes_over(prefix, [4, 4, 4, 4])
    row = 104 * 2 * 2 * 16 * 4
    monkeypatch.setattr(reader_module, "COPY_BYTES", 2 * row)
    _, _, steps = read(Reader(LLAMA, LABELS[:8]), prefix, passes)
    assert [len(step) for step in steps] == [0, 2, 2]


def test_later_rounds_use_the_prefix_of_the_first() -> None:
    prefix = tokens(60, 12)
    rounds = [passes_over(prefix, [5, 6]), passes_over(prefix, [7])]

    class Twice(Once):
        def next_round(self) -> Sequence[Pass]:
            self.scores = {}
            return rounds.pop(0) if rounds else []

    work, tally = Twice([]), Tally()
    steps = list(Reader(LLAMA, LABELS[:8]).read(Work(prefix, work), tally))
    assert [len(step) for step in steps] == [0, 2, 1]
    assert tally.input_tokens == 60 + 18
