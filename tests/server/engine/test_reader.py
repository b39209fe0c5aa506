"""Reads over a shared prefix give what one full forward a prompt gives, and never touch the prefix."""

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
import pytest
import tiny_models
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx import nn
from reading import (
    LABELS,
    VOCABULARY,
    Once,
    WithOddCaches,
    assert_same,
    passes_over,
    read,
    storing,
    tokens,
    values,
)

from dicast_server.decisions.passes import Pass
from dicast_server.engine.prefix import OpaquePrefix, SharedPrefix, empty_prefix
from dicast_server.engine.reader import Kept, Prewarming, Reader, Tally, Work, alone


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", [f for f in tiny_models.FAMILIES if f != "gpt_oss"])
def test_batched_tails_equal_full_forwards(family: str, tied: bool) -> None:
    check_family(tiny_models.family(family, VOCABULARY, tie_word_embeddings=tied))


def test_batched_tails_of_gpt_oss_equal_full_forwards() -> None:
    # Its head is always its own.
    check_family(tiny_models.family("gpt_oss", VOCABULARY))


def check_family(model: nn.Module) -> None:
    prefix = tokens(150, 99)
    passes = passes_over(prefix, [3, 7, 12, 12, 20, 31, 4])
    reader = Reader(model, LABELS[:8], 128)
    scores, tally, steps = read(reader, prefix, passes)
    for index, pass_ in enumerate(passes):
        assert_same(model, pass_, scores[index])
    # 128 and 22 tokens of prefix, then the tails: padded they do not fit into one forward.
    groups = [[0, 1, 2, 3, 6], [4, 5]] if reader.head.pads else [[0, 1, 2, 3, 4, 5, 6]]
    assert steps[:2] == [[], []]
    assert [sorted(step) for step in steps[2:]] == groups
    assert tally == Tally(input_tokens=150 + 89, cached_tokens=0, forwards=2 + len(groups))


FAMILY_MODELS = {name: tiny_models.family(name, VOCABULARY) for name in ("llama", "gemma3_text", "qwen3_5")}


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 200),
    st.lists(st.integers(1, 90), min_size=1, max_size=6),
    st.sampled_from([16, 32, 128]),
    st.booleans(),
    st.sampled_from(list(FAMILY_MODELS)),
)
def test_any_lengths_in_any_forward_size(
    prefix_length: int, lengths: list[int], forward_tokens: int, isolated: bool, family: str
) -> None:
    model = FAMILY_MODELS[family]
    prefix = tokens(prefix_length, 98)
    passes = passes_over(prefix, lengths)
    scores, tally, _ = read(Reader(model, LABELS[:8], forward_tokens, threads=2), prefix, passes, isolated)
    for index, pass_ in enumerate(passes):
        assert_same(model, pass_, scores[index])
    assert tally.input_tokens == prefix_length + sum(lengths)


LLAMA = FAMILY_MODELS["llama"]


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


def read_prefix(reader: Reader, model: nn.Module, length: int) -> SharedPrefix:
    prefix = empty_prefix(model)
    caches = prefix.caches(1)
    reader.head.forward([tokens(length, 7)], caches)
    kept = prefix.after(caches, length)
    assert isinstance(kept, SharedPrefix)
    return kept


@pytest.mark.parametrize("family", list(FAMILY_MODELS))
def test_a_shared_prefix_stays_as_it_is_bit_for_bit(family: str) -> None:
    model = FAMILY_MODELS[family]
    reader = Reader(model, LABELS[:8])
    prefix = read_prefix(reader, model, 50)
    (chunk,) = prefix.chunks
    before = [[np.array(array) for array in part] for part in chunk.parts]
    for rows in (4, 1):
        mx.eval(reader.head.forward([tokens(30, seed) for seed in range(rows)], prefix.caches(rows)))
    caches = prefix.caches(1)
    reader.head.forward([tokens(30, 1)], caches)
    assert prefix.after(caches, 30).length == 80
    for part, old in zip(chunk.parts, before, strict=True):
        for array, old_array in zip(part, old, strict=True):
            assert np.array_equal(np.array(array), old_array)


@pytest.mark.parametrize("family", list(FAMILY_MODELS))
def test_the_tokens_of_a_longer_neighbour_change_nothing(family: str) -> None:
    model = FAMILY_MODELS[family]
    reader = Reader(model, LABELS[:8])
    prefix = read_prefix(reader, model, 20)
    outputs = [reader.head.forward([tokens(5, 1), tokens(60, seed)], prefix.caches(2)) for seed in (2, 3)]
    assert np.array_equal(np.array(outputs[0][0]), np.array(outputs[1][0]))


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
    model = WithOddCaches(LLAMA)
    reader = Reader(model, LABELS[:8], 128)
    assert not reader.shares_forwards
    assert isinstance(empty_prefix(model), OpaquePrefix)
    prefix = tokens(40, 10)
    passes = passes_over(prefix, [5, 9, 150])
    scores, _, steps = read(reader, prefix, passes)
    for index, pass_ in enumerate(passes):
        assert_same(model, pass_, scores[index])
    assert [len(step) for step in steps] == [0, 1, 1, 0, 1]
    (kept,) = [kept for step in alone(reader.prewarm(Prewarming(prefix, b"", 1.0), Tally())) for kept in step]
    assert "cannot be kept" in kept.reason


def test_copies_of_the_prefix_are_bounded() -> None:
    prefix = tokens(100, 11)
    passes = passes_over(prefix, [4, 4, 4, 4])
    row = 104 * 2 * 2 * 16 * 2
    half = tiny_models.family("llama", VOCABULARY)
    half.set_dtype(mx.bfloat16)
    _, _, steps = read(Reader(half, LABELS[:8], copy_bytes=2 * row), prefix, passes)
    assert [len(step) for step in steps] == [0, 2, 2]
    # In NumPy nothing is copied.
    _, _, steps = read(Reader(LLAMA, LABELS[:8], copy_bytes=0), prefix, passes)
    assert [len(step) for step in steps] == [0, 4]


def test_later_rounds_use_the_prefix_of_the_first() -> None:
    prefix = tokens(60, 12)
    rounds = [passes_over(prefix, [5, 6]), passes_over(prefix, [7])]

    class Twice(Once):
        def next_round(self) -> Sequence[Pass]:
            self.scores = {}
            return rounds.pop(0) if rounds else []

    work, tally = Twice([]), Tally()
    steps = list(alone(Reader(LLAMA, LABELS[:8]).read(Work((prefix,), work), tally)))
    assert [len(step) for step in steps] == [0, 2, 1]
    assert tally.input_tokens == 60 + 18


def test_passes_that_are_alike_are_read_once() -> None:
    prefix = tokens(30, 13)
    same, other = Pass(prefix + tokens(9, 1), LABELS[:4]), Pass(prefix + tokens(9, 2), LABELS[:4])
    scores, tally, _ = read(Reader(LLAMA, LABELS[:8]), prefix, [same, other, same])
    assert tally.input_tokens == 30 + 18
    assert scores[0] == scores[2] != scores[1]
    assert_same(LLAMA, same, scores[2])


@pytest.mark.parametrize("family", [*tiny_models.FAMILIES])
def test_a_kept_prefix_gives_the_same_bits_as_a_fresh_one(family: str) -> None:
    model = tiny_models.family(family, VOCABULARY)
    prefix = tokens(100, 14)
    passes = passes_over(prefix, [3, 40, 9])
    fresh, cold, _ = read(storing(model), prefix, passes)
    reader = storing(model)
    first, _, _ = read(reader, prefix, passes)
    second, warm, _ = read(reader, prefix, passes)
    assert fresh == first
    assert values(second) == values(first)
    assert (cold.cached_tokens, warm.cached_tokens) == (0, 100)
    assert warm.input_tokens == cold.input_tokens
    assert warm.forwards == cold.forwards - 4


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 150), st.integers(0, 100), st.sampled_from(list(FAMILY_MODELS)))
def test_a_state_that_grows_resumes_at_its_last_boundary(length: int, grown: int, family: str) -> None:
    model = FAMILY_MODELS[family]
    reader = storing(model)
    whole = tokens(length + grown, 15)
    read(reader, whole[:length], passes_over(whole[:length], [5]))
    passes = passes_over(whole, [5, 8])
    resumed, tally, _ = read(reader, whole, passes)
    fresh, _, _ = read(storing(model), whole, passes)
    assert values(resumed) == values(fresh)
    assert tally.cached_tokens >= length // 32 * 32
    assert len(whole) - tally.cached_tokens <= grown + 32


def test_requests_side_by_side_read_a_state_once() -> None:
    reader = storing(LLAMA)
    prefix = tokens(96, 16)
    tallies = [Tally(), Tally()]
    works = [Once(passes_over(prefix, [5])) for _ in tallies]
    runs = [
        alone(reader.read(Work((prefix,), work), tally)) for work, tally in zip(works, tallies, strict=True)
    ]
    while runs:
        runs = [run for run in runs if next(run, None) is not None]
    # Three chunks and two tails: what one has read the other finds.
    assert sum(tally.forwards for tally in tallies) == 3 + 2
    assert sum(tally.cached_tokens for tally in tallies) == 96
    assert values(works[0].scores) == values(works[1].scores)


def test_salts_keep_prefixes_apart() -> None:
    reader = storing(LLAMA)
    prefix = tokens(64, 17)
    passes = passes_over(prefix, [5])
    for salt, cached in ((b"a", 0), (b"b", 0), (b"a", 64), (b"b", 64)):
        tally = Tally()
        list(alone(reader.read(Work((prefix,), Once(passes), salt=salt), tally)))
        assert tally.cached_tokens == cached


def test_a_prewarmed_prefix_is_found() -> None:
    reader = storing(LLAMA)
    prefix = tokens(70, 18)
    tally = Tally()
    steps = list(alone(reader.prewarm(Prewarming(prefix, b"", 60.0), tally)))
    assert steps == [[], [], [Kept()]]
    assert tally == Tally(input_tokens=70, cached_tokens=0, forwards=3)
    _, tally, _ = read(reader, prefix, passes_over(prefix, [5]))
    assert tally.cached_tokens == 70
