"""What a prefix is said to take is what it takes."""

import pytest
import tiny_models
from hypothesis import given
from hypothesis import strategies as st

from dicast_server.engine.footprint import Footprint
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
    for tokens in (16, 16, 5):
        caches = prefix.caches(1)
        reader.head.forward([[7] * tokens], caches)
        prefix = prefix.after(caches, tokens)
        assert reader.footprint.of(prefix.length) == prefix.nbytes > 0
