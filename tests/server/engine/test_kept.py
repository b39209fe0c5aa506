"""Scores that are kept between requests: what they are known by, and which go."""

import math

from hypothesis import given
from hypothesis import strategies as st

from dicast_server.decisions.passes import Pass, Scores
from dicast_server.engine.kept import KeptScores, ScoreCache

IDS = st.lists(st.integers(0, 2), max_size=3).map(tuple)
SOME_IDS = st.lists(st.integers(0, 2), min_size=1, max_size=3).map(tuple)
PASSES = st.builds(Pass, IDS, labels=SOME_IDS) | st.builds(
    Pass, IDS, candidates=st.lists(SOME_IDS, min_size=1, max_size=3).map(tuple)
)
SCORES = Scores((-1.0, -2.0), 0.5, (3, 4))


@given(st.tuples(st.binary(max_size=2), PASSES), st.tuples(st.binary(max_size=2), PASSES))
def test_scores_are_known_by_salt_tokens_and_what_is_read(
    one: tuple[bytes, Pass], other: tuple[bytes, Pass]
) -> None:
    cache = ScoreCache()
    cache.keep(*one, SCORES, 7)
    assert cache.find(*one) == KeptScores(Scores((-1.0, -2.0), 0.5), 7)
    assert (cache.find(*other) is None) == (one != other)


def test_what_was_used_longest_ago_goes_first() -> None:
    cache = ScoreCache(2)
    one, two, three = (Pass((token,), (1,)) for token in range(3))
    cache.keep(b"", one, SCORES, 1)
    cache.keep(b"", two, SCORES, 1)
    assert cache.find(b"", one)
    cache.keep(b"", three, SCORES, 1)
    assert len(cache) == 2
    assert [cache.find(b"", each) is None for each in (one, two, three)] == [False, True, False]


def test_scores_that_are_not_finite_are_not_kept() -> None:
    cache = ScoreCache()
    for scores in (Scores((math.nan,), 0.5), Scores((0.0,), math.nan), Scores((-math.inf,), 0.0)):
        cache.keep(b"", Pass((1,), (1,)), scores, 1)
        assert cache.find(b"", Pass((1,), (1,))) is None
