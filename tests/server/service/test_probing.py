"""A model is asked a probe set in every way: what each came to, and which it cannot take."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tiny_server import load_tiny

from dicast_server.profiling.comparison import Comparison, Measured, NotTaken
from dicast_server.profiling.probes import ProbeSet
from dicast_server.profiling.ways import WAYS
from dicast_server.readouts.profile import STOCK
from dicast_server.service.loading import Served
from dicast_server.service.probing import compare
from dicast_server.service.registry import Registry

STATES: list[Any] = ["The door is open.", {"door": "shut", "colour": "red"}]


def probe_set(*names: str) -> ProbeSet:
    questions = [
        {"type": "predicate", "instructions": "Is the door open?", "answer": True},
        {
            "type": "choice",
            "instructions": "Which colour?",
            "options": dict.fromkeys(names),
            "answer": names[-1],
        },
        {"type": "score", "instructions": "How wide?", "levels": ["shut", "ajar", "open"], "answer": 2},
    ]
    probes = [{"state": state, "questions": questions} for state in STATES]
    return ProbeSet.from_json(json.dumps({"version": 1, "probes": probes}))


@pytest.fixture(scope="module")
def served() -> Served:
    return load_tiny()


@pytest.fixture(scope="module")
def comparison(served: Served) -> Comparison:
    return compare(served, Registry.installed(), STOCK, probe_set("red", "green", "blue"))


def test_every_way_is_measured_or_has_a_reason(served: Served) -> None:
    told: list[Measured | NotTaken] = []
    found = compare(served, Registry.installed(), STOCK, probe_set("red", "blue"), told=told.append)
    assert [each.way for each in told] == list(WAYS)
    assert [each for each in told if isinstance(each, Measured)] == found.measured
    assert [each for each in told if isinstance(each, NotTaken)] == found.not_taken
    assert found.probe_set_hash == probe_set("red", "blue").hash


def test_what_is_counted_and_what_chance_would_give(comparison: Comparison) -> None:
    for each in comparison.measured:
        assert each.overall.questions == 6
        assert {name: measures.questions for name, measures in each.by_type.items()} == {
            "predicate": 2,
            "choice": 2,
            "score": 2,
        }
        assert each.overall.chance_accuracy == pytest.approx((1 / 2 + 1 / 3 + 1 / 3) / 3)
        assert 0 < each.option_mass <= 1


def test_ways_read_differently_and_again_the_same(served: Served, comparison: Comparison) -> None:
    losses = [each.overall.log_loss.value for each in comparison.measured]
    assert len(set(losses)) == len(losses)
    again = compare(served, Registry.installed(), STOCK, probe_set("red", "green", "blue"))
    assert again == comparison


def test_a_way_that_cannot_read_a_question_says_why(comparison: Comparison) -> None:
    # The tiny tokenizer has a token a character.
    (one_token,) = comparison.not_taken
    assert one_token.way.name == "candidates, one token"
    assert one_token.reason.startswith("a question has candidates that are not one token of their own ('")


def test_a_state_that_is_too_long_says_why(served: Served) -> None:
    short = replace(served, model=replace(served.model, context=8))
    found = compare(short, Registry.installed(), STOCK, probe_set("red", "blue"))
    assert not found.measured
    assert all("at most 8 are read" in each.reason for each in found.not_taken)
