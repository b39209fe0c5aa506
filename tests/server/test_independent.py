"""Every readout against the reference: whole prompts, one forward each, by the model as mlx-lm runs it."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny_models
from scripted import diagnostics
from tiny_server import REGISTRY, load_tiny

from dicast import jsontext
from dicast_server.decisions.answers import Answer
from dicast_server.decisions.questions import (
    Choice,
    Condition,
    Level,
    Option,
    Outcome,
    Predicate,
    Question,
    Score,
)
from dicast_server.engine.reader import Tally, alone
from dicast_server.service.loading import Served, load_served
from dicast_server.service.registry import ChosenReadout
from dicast_server.service.requests import AskedQuestion, DecisionRequest, RequestOptions

STATE = "Parcel 7 left Porto on 12 September. It has not moved for nine days. " * 3
TEAMS = Choice(
    (
        Option("billing", "charges and refunds"),
        Option("bill"),
        Option("shipping", "lost and late parcels"),
        Option("none of these"),
    )
)
LEVELS = Score((Level("low"), Level("high", "today"), Level("at once")))
EITHER = (Outcome("bool", True), Outcome("bool", False))
QUESTIONS = [
    Question(0, "team", None, "Which team should look into it?", TEAMS),
    Question(1, "late", None, "Is the parcel late? " + "Think of every word in it. " * 6, Predicate()),
    Question(2, "urgency", None, "How urgent is it?", LEVELS),
    Question(3, "why", None, "Did it move?", Predicate(), (Condition(1, EITHER),)),
]
WAYS: list[tuple[str, dict[str, Any]]] = [
    ("letters", {}),
    ("letters", {"style": "bracket", "correct_prior": True}),
    ("direct", {}),
    ("direct", {"hide_names": True}),
    ("candidates", {}),
    ("candidates", {"scoring": "sequence", "normalize_length": True, "correct_prior": True}),
]


def chosen(name: str, settings: dict[str, Any]) -> ChosenReadout:
    kind = REGISTRY.readouts[name]
    parsed = jsontext.parse(jsontext.encode(settings))
    assert isinstance(parsed, jsontext.Object)
    return ChosenReadout(kind, kind.settings(parsed))


def read(
    served: Served, readouts: Sequence[ChosenReadout], independent: bool, orders: int = 1
) -> tuple[list[Answer], Tally]:
    """The questions, each with a readout of its own in turn."""
    asked = tuple(
        AskedQuestion(question, readout)
        for question, readout in zip(QUESTIONS, itertools.cycle(readouts), strict=False)
    )
    options = RequestOptions(orders=orders, independent=independent)
    tally = Tally()
    work = served.planner(REGISTRY).plan(DecisionRequest(STATE, asked, options))
    answers = itertools.chain.from_iterable(alone(work.start(served.reader, tally)))
    return sorted(answers, key=lambda answer: answer.question.index), tally


def assert_agree(served: Served, readouts: Sequence[ChosenReadout], orders: int = 1) -> None:
    shared, tally = read(served, readouts, False, orders)
    alone, whole = read(served, readouts, True, orders)
    assert [answer.question.key for answer in shared] == [question.key for question in QUESTIONS]
    assert tally.input_tokens < whole.input_tokens
    for one, other in zip(shared, alone, strict=True):
        assert type(one.kind) is type(other.kind)
        assert diagnostics(one).prompt_hash == diagnostics(other).prompt_hash
        mass = diagnostics(other).option_mass
        assert diagnostics(one).option_mass == pytest.approx(mass, rel=1e-3, abs=1e-6)
        for mine, reference in zip(diagnostics(one).passes, diagnostics(other).passes, strict=True):
            assert mine.scores == pytest.approx(reference.scores, abs=1e-4)


@pytest.fixture(scope="module")
def smollm2(smollm2_path: Path) -> Served:
    return load_served("smollm2-135m-instruct", smollm2_path.parents[1], forward_tokens=64)


@pytest.mark.parametrize("way", [WAYS[1], WAYS[2], WAYS[5]], ids=str)
def test_smollm2_reads_alike_shared_and_whole(smollm2: Served, way: tuple[str, dict[str, Any]]) -> None:
    assert_agree(smollm2, [chosen(*way)])


@pytest.mark.parametrize("family", ["llama", "qwen3_5", "mamba2", "gemma3_text", "gpt_oss"])
def test_tiny_models_read_alike_shared_and_whole(family: str) -> None:
    """Dense, hybrid, recurrent, sliding windows, sinks: all readouts mixed in one request, in two orders."""
    served = load_tiny(model=tiny_models.family(family, 272))
    assert_agree(served, [chosen(*way) for way in WAYS[:4]], orders=2)
    assert_agree(served, [chosen(*way) for way in WAYS[3:]])


def test_the_same_request_has_the_same_bits_whatever_was_kept() -> None:
    served = load_tiny()
    readouts = [chosen(*way) for way in WAYS]
    first, _ = read(served, readouts, False)
    again, tally = read(served, readouts, False)
    assert [answer.kind for answer in first] == [answer.kind for answer in again]
    assert [[p.scores for p in diagnostics(a).passes] for a in first] == [
        [p.scores for p in diagnostics(a).passes] for a in again
    ]
    # What the candidates score without content was kept.
    assert tally.cached_tokens > 0
