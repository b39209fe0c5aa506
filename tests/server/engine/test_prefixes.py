"""Requests of several prefixes, of passes whose scores are kept, and of steps that are given up."""

import pytest
import tiny_models
from reading import (
    LABELS,
    VOCABULARY,
    Once,
    WithOddCaches,
    assert_same,
    passes_over,
    read_work,
    storing,
    tokens,
    values,
)

from dicast_server.decisions.passes import Pass
from dicast_server.engine.reader import Reader, Tally, Work

LLAMA = tiny_models.family("llama", VOCABULARY)
SHORT, OTHER = tokens(40, 1), tokens(70, 2)
LONG = SHORT + tokens(45, 3)


def test_a_pass_is_read_behind_the_longest_prefix_that_it_continues() -> None:
    passes = [
        *passes_over(SHORT, [5, 9]),
        *passes_over(LONG, [6, 7]),
        *passes_over(OTHER, [8]),
        Pass(LONG, LABELS[:3]),
        Pass(tokens(11, 4), LABELS[:3]),
    ]
    scores, tally, _ = read_work(storing(LLAMA), passes, (SHORT, LONG, OTHER))
    for index, pass_ in enumerate(passes):
        assert_same(LLAMA, pass_, scores[index])
    tails = (5 + 9) + (6 + 7) + 8 + 45 + 11
    assert tally.input_tokens == 40 + 85 + 70 + tails
    # The longer one begins with a chunk of the shorter.
    assert tally.cached_tokens == 32


def test_a_prefix_that_no_pass_continues_is_not_read() -> None:
    scores, tally, _ = read_work(storing(LLAMA), passes_over(SHORT, [5]), (OTHER, SHORT))
    assert len(scores) == 1
    assert tally == Tally(input_tokens=40 + 5, cached_tokens=0, forwards=3)


def test_without_prefixes_each_pass_is_read_alone() -> None:
    passes = [Pass(tokens(9, seed), LABELS[:4]) for seed in range(3)]
    scores, tally, steps = read_work(Reader(LLAMA, LABELS[:8]), passes)
    assert steps == [[0], [1], [2]]
    assert tally.input_tokens == 27
    for index, pass_ in enumerate(passes):
        assert_same(LLAMA, pass_, scores[index])


def test_each_prefix_is_read_once_in_all_rounds() -> None:
    rounds = [passes_over(SHORT, [5]), [*passes_over(OTHER, [6]), *passes_over(SHORT, [7])]]

    class Twice(Once):
        def next_round(self) -> list[Pass]:
            self.scores = {}
            return rounds.pop(0) if rounds else []

    tally = Tally()
    # No store, which would hide a second reading.
    for _ in Reader(LLAMA, LABELS[:8], 128).read(Work((SHORT, OTHER), Twice([])), tally):
        pass
    assert tally == Tally(input_tokens=40 + 70 + 5 + 6 + 7, cached_tokens=0, forwards=2 + 3)


KEPT = [
    Pass(SHORT + tokens(5, 4), LABELS[:3], kept=True),
    Pass(SHORT + tokens(50, 5), candidates=((7, 8), (7, 9, 10)), kept=True),
]


@pytest.mark.parametrize("opaque", [False, True])
def test_kept_scores_come_back_without_a_forward(opaque: bool) -> None:
    reader = storing(WithOddCaches(LLAMA) if opaque else LLAMA)
    first, cold, _ = read_work(reader, KEPT, (SHORT,))
    again, warm, steps = read_work(reader, [KEPT[1], KEPT[0], KEPT[0]], (SHORT,))
    assert values(again) == {0: values(first)[1], 1: values(first)[0], 2: values(first)[0]}
    assert {scores.forwards for scores in again.values()} == {()}
    # The prefix is none to them: what they read does not depend on where it ends.
    assert cold == Tally(45 + 90 + 2, 0, cold.forwards)
    assert warm == Tally(45 + 90 + 2, 45 + 90 + 2, 0)
    assert steps == [[0, 1, 2]]


def test_kept_scores_feel_nobody() -> None:
    alone = [values(read_work(storing(LLAMA), [pass_])[0])[0] for pass_ in KEPT]
    among = [*passes_over(SHORT, [6, 7]), *KEPT, Pass(KEPT[0].tokens, KEPT[0].labels)]
    for settings in ({}, {"isolated": True}):
        reader = storing(LLAMA)
        cold, *_ = read_work(reader, among, (SHORT,), **settings)
        warm, tally, _ = read_work(reader, among, (SHORT,), **settings)
        assert [values(cold)[2], values(cold)[3]] == alone
        assert [values(warm)[2], values(warm)[3]] == alone
        assert_same(LLAMA, among[4], warm[4])
        assert tally.cached_tokens == 40 + 45 + 92


def test_kept_scores_are_found_by_their_own_salt_alone() -> None:
    reader = storing(LLAMA)
    for salt, cached in ((b"a", 0), (b"b", 0), (b"a", 45)):
        _, tally, _ = read_work(reader, KEPT[:1], salt=salt)
        assert tally.cached_tokens == cached


def test_answers_that_need_no_forward_come_with_the_first_one() -> None:
    reader = storing(LLAMA)
    read_work(reader, KEPT[:1])
    _, _, steps = read_work(reader, [*passes_over(SHORT, [5, 6]), KEPT[0]], (SHORT,), isolated=True)
    assert steps == [[2], [], [0], [1]]


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("given_up_after", [1, 3, 5, 7])
def test_each_step_is_one_forward_so_that_giving_up_runs_no_other(
    independent: bool, given_up_after: int
) -> None:
    passes = [
        Pass(SHORT + tokens(70, 6), candidates=((7, 8), (9, 10), tokens(80, 7))),
        *KEPT,
        *passes_over(OTHER, [40, 3]),
    ]
    work, tally = Once(passes), Tally()
    steps = storing(LLAMA).read(Work((SHORT, OTHER), work, True, independent), tally)
    for step in range(given_up_after):
        next(steps)
        assert tally.forwards == step + 1
    heard = len(work.scores)
    steps.close()
    assert (tally.forwards, len(work.scores)) == (given_up_after, heard)


def test_what_a_pass_reads_is_labels_or_candidates() -> None:
    with pytest.raises(ValueError, match="labels or candidates"):
        Pass((1,))
    with pytest.raises(ValueError, match="labels or candidates"):
        Pass((1,), labels=(1,), candidates=((1,),))
    with pytest.raises(ValueError, match="a token at least"):
        Pass((1,), candidates=((1,), ()))
