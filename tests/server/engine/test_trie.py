"""The trie of candidates against a scorer that walks each candidate by itself."""

import hashlib
import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicast_server.engine.trie import TokenRead, Trie

# Few tokens, so that candidates have beginnings in common.
CANDIDATES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple), min_size=1, max_size=12)


def log_probability(before: Sequence[int], token: int) -> float:
    """Of a token behind others: any number, of all of them."""
    digest = hashlib.sha256(repr((tuple(before), token)).encode()).digest()
    return -int.from_bytes(digest[:4], "big") / 2**32


def naive(candidate: Sequence[int]) -> float:
    total = 0.0
    for place, token in enumerate(candidate):
        total += log_probability(candidate[:place], token)
    return total


@given(CANDIDATES)
def test_sums_are_those_of_each_candidate_by_itself(candidates: list[tuple[int, ...]]) -> None:
    trie = Trie.of(candidates)
    first = [log_probability((), token) for token in trie.first]
    reads = [log_probability(trie.rows[read.row][: read.position + 1], read.token) for read in trie.reads]
    assert trie.sums(first, reads) == tuple(map(naive, candidates))


@given(CANDIDATES)
def test_nothing_is_read_twice(candidates: list[tuple[int, ...]]) -> None:
    trie = Trie.of(candidates)
    read: list[tuple[int, ...]] = [(token,) for token in trie.first]
    read += [(*trie.rows[each.row][: each.position + 1], each.token) for each in trie.reads]
    beginnings = {candidate[:end] for candidate in candidates for end in range(1, len(candidate) + 1)}
    assert len(read) == len(beginnings)
    assert set(read) == beginnings


@given(CANDIDATES)
def test_rows_are_the_longest_paths_without_their_last_token(candidates: list[tuple[int, ...]]) -> None:
    paths = {candidate[:-1] for candidate in candidates} - {()}
    longest = {
        path for path in paths if not any(path != more and more[: len(path)] == path for more in paths)
    }
    rows = Trie.of(candidates).rows
    assert len(rows) == len(longest)
    assert set(rows) == longest


@given(CANDIDATES)
def test_the_reads_of_a_row_are_together_and_ascend(candidates: list[tuple[int, ...]]) -> None:
    trie = Trie.of(candidates)
    assert [place for row in range(len(trie.rows)) for place in trie.places(row)] == [*range(len(trie.reads))]
    for row in range(len(trie.rows)):
        reads = [trie.reads[place] for place in trie.places(row)]
        assert {read.row for read in reads} == {row}
        assert all(one.position <= other.position for one, other in itertools.pairwise(reads))
        # The last token is there to be read behind.
        assert reads[-1].position == len(trie.rows[row]) - 1


@pytest.mark.parametrize(
    ("candidates", "trie"),
    [
        ([(7,)], Trie((7,), (), (), ((0,),))),
        ([(7,), (7,), (8,)], Trie((7, 8), (), (), ((0,), (0,), (1,)))),
        # One begins the other, whose row it is read in.
        (
            [(7, 8), (7, 8, 9)],
            Trie((7,), ((7, 8),), (TokenRead(0, 0, 8), TokenRead(0, 1, 9)), ((0, 0), (0, 0, 1))),
        ),
        # Two rows that begin alike: what follows their beginning is read in the first.
        (
            [(1, 2, 3), (1, 4, 5)],
            Trie(
                (1,),
                ((1, 2), (1, 4)),
                (TokenRead(0, 0, 2), TokenRead(0, 0, 4), TokenRead(0, 1, 3), TokenRead(1, 1, 5)),
                ((0, 0, 2), (0, 1, 3)),
            ),
        ),
    ],
)
def test_tries(candidates: list[tuple[int, ...]], trie: Trie) -> None:
    assert Trie.of(candidates) == trie
