"""What a prefix is said to take is what it takes."""

import gc

import mlx.core as mx
import pytest
import tiny_models
from hypothesis import given
from hypothesis import strategies as st
from reading import WithOddCaches, read_work, tokens

from dicast_server.decisions.passes import Pass
from dicast_server.engine.footprint import Footprint, WholeForward
from dicast_server.engine.reader import Reader

FOOTPRINTS = st.builds(Footprint, st.integers(0, 99), st.integers(0, 999), st.integers(1, 64))


@given(FOOTPRINTS, st.integers(0, 50_000), st.integers(0, 500))
def test_the_longest_that_fits_is_the_longest(footprint: Footprint, nbytes: int, most: int) -> None:
    tokens = footprint.within(nbytes, most)
    assert 0 <= tokens <= most
    assert footprint.of(tokens) <= nbytes
    assert tokens == most or footprint.of(tokens + 1) > nbytes


@pytest.mark.parametrize("family", tiny_models.FAMILIES)
def test_a_prefix_takes_what_is_said(family: str) -> None:
    reader = Reader(tiny_models.family(family), range(60, 68), 16)
    prefix = reader.empty
    for length in (16, 16, 5):
        caches = prefix.caches(1)
        reader.head.forward([[7] * length], caches)
        prefix = prefix.after(caches, length)
        assert reader.footprint.of(prefix.length) == prefix.nbytes > 0


@pytest.mark.parametrize("opaque", [False, True])
def test_a_request_takes_its_prefixes_and_the_longest_that_is_behind_one(opaque: bool) -> None:
    model = tiny_models.family("llama")
    reader = Reader(WithOddCaches(model) if opaque else model, range(60, 68), 16)
    prefix = reader.empty
    held = []
    # Two prefixes, then a question and a candidate's row behind the second.
    for lengths in ((16, 5), (16, 16, 9), (16, 16, 9, 7, 3)):
        prefix = reader.empty
        for length in lengths:
            caches = prefix.caches(1)
            reader.head.forward([[7] * length], caches)
            prefix = prefix.after(caches, length)
        # One that copies says so of itself; another one's chunks are those of its beginning.
        held.append(prefix.nbytes)
    taken = sum(held) if opaque else held[0] + held[2]
    assert taken <= reader.footprint.over([21, 41], 7 + 3)
    # mlx-lm's own caches grow by 256 tokens, which looks like so much a chunk.
    assert opaque or reader.footprint.over([21, 41], 7 + 3) == taken


@given(st.integers(0, 999), st.integers(0, 9999), st.integers(0, 10**7), st.integers(0, 500))
def test_the_longest_whole_prompt_that_fits_is_the_longest(
    pair_bytes: int, token_bytes: int, nbytes: int, most: int
) -> None:
    whole = WholeForward(pair_bytes, token_bytes)
    found = whole.within(nbytes, most)
    assert whole.of(found) <= nbytes
    assert found == most or whole.of(found + 1) > nbytes


@pytest.mark.usefixtures("exact_memory")
@pytest.mark.parametrize("family", tiny_models.FAMILIES)
def test_a_whole_forward_takes_no_more_than_is_said(family: str) -> None:
    reader = Reader(tiny_models.family(family), range(60, 68))
    for length in (300, 1000):
        pass_ = Pass(tokens(length, 1), (60, 61))
        gc.collect()
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        read_work(reader, [pass_], independent=True)
        taken = mx.get_peak_memory() - before
        assert taken <= reader.whole_forward.of(length) <= 6 * taken
