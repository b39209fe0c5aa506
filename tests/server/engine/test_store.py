"""The store of prefixes against a plain model of what it must hold."""

from collections.abc import Sequence

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dicast_server.engine.prefix import Chunk
from dicast_server.engine.store import Chain, PrefixStore

PIECE = 4
NBYTES = 16


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def chunk(tokens: int = PIECE, nbytes: int = NBYTES) -> Chunk:
    return Chunk(tokens, ((mx.zeros((nbytes // 8,)), mx.zeros((nbytes // 8,))),))


def pieces(tokens: Sequence[int]) -> list[Sequence[int]]:
    return [tokens[start : start + PIECE] for start in range(0, len(tokens), PIECE)]


def walk(store: PrefixStore, tokens: Sequence[int], salt: bytes = b"") -> tuple[int, Chain]:
    """Read a prefix: how many of its chunks were found, and the chain."""
    chain = store.chain(salt)
    found = 0
    for piece in pieces(tokens):
        if chain.find(piece) is None:
            chain.add(chunk(len(piece)))
        else:
            found += 1
    return found, chain


def test_what_was_kept_is_found_by_its_tokens_and_salt() -> None:
    store = PrefixStore(10_000, Clock())
    assert walk(store, range(10))[0] == 0
    assert walk(store, range(10))[0] == 3
    # Whole chunks of a common beginning are shared; the last, partial one is another.
    assert walk(store, range(12))[0] == 2
    assert walk(store, [*range(8), 99])[0] == 2
    assert walk(store, [7, *range(9)])[0] == 0
    assert walk(store, range(10), b"other")[0] == 0
    assert store.counters.kept == 3 + 1 + 1 + 3 + 3


def test_a_chunk_is_known_by_all_tokens_before_it() -> None:
    store = PrefixStore(10_000, Clock())
    walk(store, [1, 1, 1, 1, 5, 5, 5, 5])
    assert walk(store, [2, 2, 2, 2, 5, 5, 5, 5])[0] == 0


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 8), st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), max_size=30))
def test_the_budget_is_kept_and_a_child_never_outlives_its_parent(
    chunks: int, requests: list[tuple[int, int]]
) -> None:
    store = PrefixStore(chunks * NBYTES, Clock())
    for first, length in requests:
        tokens = [first * 100 + n for n in range(length * PIECE)]
        _, chain = walk(store, tokens)
        assert store.counters.nbytes <= store.budget_bytes
        found, _ = walk(store, tokens)
        assert found == min(length, chunks)
        assert (chain.reason == "") == (length <= chunks)


def test_what_was_used_longest_ago_goes_first() -> None:
    store = PrefixStore(4 * NBYTES, Clock())
    a, b, c = ([base + n for n in range(8)] for base in (0, 100, 200))
    walk(store, a)
    walk(store, b)
    walk(store, a)
    walk(store, c)
    assert walk(store, a)[0] == 2
    assert walk(store, b[:4])[0] == 0


def test_the_end_of_a_state_goes_before_its_beginning() -> None:
    store = PrefixStore(3 * NBYTES, Clock())
    walk(store, range(12))
    walk(store, [500, 501, 502, 503])
    assert walk(store, range(8))[0] == 2


def test_held_states_stay_until_their_time() -> None:
    clock = Clock()
    store = PrefixStore(2 * NBYTES, clock)
    _, chain = walk(store, range(8))
    chain.hold(10.0)
    found, other = walk(store, [100, 101, 102, 103])
    assert found == 0
    assert "full" in other.reason
    assert walk(store, range(8))[0] == 2
    clock.now = 10.5
    _, other = walk(store, [100, 101, 102, 103])
    assert other.reason == ""
    assert store.counters.evicted == 1


def test_a_shorter_hold_does_not_end_a_longer_one() -> None:
    clock = Clock()
    store = PrefixStore(2 * NBYTES, clock)
    walk(store, range(8))[1].hold(10.0)
    walk(store, range(8))[1].hold(1.0)
    clock.now = 5.0
    assert walk(store, [100, 101, 102, 103])[1].reason


def test_a_state_larger_than_the_budget_keeps_its_beginning_and_says_so() -> None:
    store = PrefixStore(2 * NBYTES, Clock())
    _, chain = walk(store, range(20))
    assert "full" in chain.reason
    assert walk(store, range(8))[0] == 2


def test_a_budget_below_one_chunk_keeps_nothing() -> None:
    store = PrefixStore(NBYTES - 1, Clock())
    _, chain = walk(store, range(8))
    assert "one of its chunks takes 16 bytes" in chain.reason
    assert store.counters.nbytes == 0


def test_an_eviction_in_the_middle_of_a_read_keeps_no_orphan() -> None:
    store = PrefixStore(1 * NBYTES, Clock())
    chain = store.chain(b"")
    assert chain.find(range(4)) is None
    chain.add(chunk())
    walk(store, [100, 101, 102, 103])
    assert chain.find(range(4, 8)) is None
    chain.add(chunk())
    assert "evicted" in chain.reason
    assert store.counters.nbytes == NBYTES


def test_kept_chunks_are_handed_out_as_they_are() -> None:
    store = PrefixStore(10_000, Clock())
    kept = chunk()
    chain = store.chain(b"")
    assert chain.find(range(4)) is None
    chain.add(kept)
    assert store.chain(b"").find(range(4)) is kept


@pytest.mark.parametrize("hold", [True, False])
def test_counters(hold: bool) -> None:
    store = PrefixStore(10 * NBYTES, Clock())
    _, chain = walk(store, range(8))
    if hold:
        chain.hold(5)
    walk(store, range(8))
    counters = store.counters
    assert (counters.hits, counters.misses, counters.kept, counters.evicted) == (2, 2, 2, 0)
    assert counters.nbytes == 2 * NBYTES
