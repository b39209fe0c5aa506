"""The plan of tails: the published cases, and what holds for all lengths."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicast_server.engine.groups import group_tails

CASES = json.loads((Path(__file__).parents[2] / "fixtures/letters.json").read_text())["plan_buckets"]
OVERHEAD = 32
LENGTHS = st.lists(st.integers(1, 200), min_size=1, max_size=40)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["lengths"])[:40])
def test_published_cases(case: dict[str, Any]) -> None:
    overhead = case.get("overhead", OVERHEAD)
    planned = group_tails(case["lengths"], case.get("limit", 128), lambda tokens: tokens + overhead)
    assert planned == case["groups"]


@given(LENGTHS)
def test_every_tail_is_in_one_group_that_fits(lengths: list[int]) -> None:
    groups = group_tails(lengths, 128, linear)
    assert sorted(itertools.chain(*groups)) == list(range(len(lengths)))
    for group in groups:
        longest = max(lengths[index] for index in group)
        assert len(group) == 1 or len(group) * longest <= 128


@given(LENGTHS, st.randoms(use_true_random=False))
def test_the_cost_does_not_depend_on_the_order(lengths: list[int], random: Any) -> None:
    shuffled = random.sample(lengths, len(lengths))
    assert cost(lengths, group_tails(lengths, 128, linear)) == cost(
        shuffled, group_tails(shuffled, 128, linear)
    )


@given(st.lists(st.integers(1, 70), min_size=1, max_size=7))
def test_no_other_cut_of_the_sorted_tails_costs_less(lengths: list[int]) -> None:
    order = sorted(range(len(lengths)), key=lambda index: (lengths[index], index))
    best = min(
        cost(lengths, groups)
        for cuts in itertools.product([False, True], repeat=len(lengths) - 1)
        if fits(lengths, groups := cut(order, cuts))
    )
    assert cost(lengths, group_tails(lengths, 128, linear)) == best


@given(LENGTHS, st.integers(1, 5))
def test_a_bound_on_rows_is_kept(lengths: list[int], most_rows: int) -> None:
    groups = group_tails(lengths, 10_000, linear, fits=lambda rows, width: rows <= most_rows)
    assert all(len(group) <= most_rows for group in groups)


@given(LENGTHS)
def test_without_padding_a_group_has_the_tokens_of_its_tails(lengths: list[int]) -> None:
    groups = group_tails(lengths, 128, linear, pads=False)
    assert sorted(itertools.chain(*groups)) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or sum(lengths[index] for index in group) <= 128
    assert len(groups) <= len(group_tails(lengths, 128, linear))


def test_nothing_to_plan() -> None:
    assert group_tails([], 128, linear) == []


def linear(tokens: int) -> float:
    return tokens + OVERHEAD


def cost(lengths: list[int], groups: list[list[int]]) -> float:
    return sum(linear(len(group) * max(lengths[i] for i in group)) for group in groups)


def fits(lengths: list[int], groups: list[list[int]]) -> bool:
    return all(len(group) == 1 or len(group) * max(lengths[i] for i in group) <= 128 for group in groups)


def cut(order: list[int], cuts: tuple[bool, ...]) -> list[list[int]]:
    groups = [[order[0]]]
    for index, new in zip(order[1:], cuts, strict=True):
        if new:
            groups.append([index])
        else:
            groups[-1].append(index)
    return groups
