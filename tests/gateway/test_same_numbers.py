"""The same question over gRPC and both JSON routes: the same prompt, the same numbers to the last bit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from gateway.roads import (
    bits,
    numbers,
    of_decisions,
    of_systemone,
    over_decisions,
    over_grpc,
    over_systemone,
)
from gateway.served import Loop
from gateway.tiny import Tiny, tiny_served
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_server import load_tiny, tiny_llama

import dicast
from dicast import Json, Options
from dicast_server.service.loading import Served

_CONTEXT = 16_384

_CHARACTERS = st.characters(exclude_categories=["Cs"])
_TEXTS = st.text(_CHARACTERS, max_size=6)
_INSTRUCTIONS = st.text(_CHARACTERS, max_size=20)
_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), _TEXTS
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXTS, inner, max_size=3)),
    max_leaves=6,
)
_OBJECTS = st.dictionaries(_TEXTS, _VALUES, max_size=4)
# As a part of a message JSON is an object or an array of objects.
_STATES = st.one_of(st.text(_CHARACTERS, max_size=80), _OBJECTS, st.lists(_OBJECTS, max_size=3))
_PREDICATES = st.fixed_dictionaries({"kind": st.just("predicate"), "instructions": _INSTRUCTIONS})
_CHOICES = st.fixed_dictionaries(
    {
        "kind": st.just("choice"),
        "instructions": _INSTRUCTIONS,
        "options": st.dictionaries(_TEXTS, st.text(_CHARACTERS, max_size=3), min_size=2, max_size=30),
    }
)
_SCORES = st.fixed_dictionaries(
    {
        "kind": st.just("score"),
        "instructions": _INSTRUCTIONS,
        "levels": st.lists(_TEXTS, min_size=2, max_size=10),
    }
)
_QUESTIONS = st.lists(st.one_of(_PREDICATES, _CHOICES, _SCORES), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def roomy(loop: Loop) -> Iterator[Tiny]:
    """An engine that reads whatever is made up here: its tokenizer has one token a byte."""

    def load() -> Served:
        return load_tiny(context=_CONTEXT, model=tiny_llama(max_position_embeddings=_CONTEXT))

    with tiny_served(loop, load=load) as served:
        yield served


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(state=_STATES, asked=_QUESTIONS)
def test_all_roads_lead_to_the_same_bits(roomy: Tiny, state: Any, asked: list[dict[str, Any]]) -> None:
    """Another server rendered a question differently in its two dialects, and moving moved the answers."""
    text = json.dumps(state, ensure_ascii=False)
    decision = roomy.grpc.decide(
        state if isinstance(state, str) else Json(text),
        [over_grpc(question) for question in asked],
        options=Options(detail="basic"),
    )
    expected = [bits(numbers(answer)) for answer in decision]
    hashes = [answer.diagnostics.prompt_hash for answer in decision if answer.diagnostics]
    assert len(hashes) == len(asked)
    detail = {"x_dicast": {"detail": "basic"}}

    questions = {f"q{index}": over_systemone(question) for index, question in enumerate(asked)}
    answers = roomy.answers("/v1/systemone", {"state": state, "questions": questions, **detail})
    assert list(answers) == list(questions)
    assert [bits(of_systemone(answer)) for answer in answers.values()] == expected
    assert [answer["x_dicast"]["diagnostics"]["prompt_hash"] for answer in answers.values()] == hashes

    part = {"type": "input_json", "data": state}
    evidence = state if isinstance(state, str) else [{"role": "user", "content": [part]}]
    listed = [over_decisions(question) for question in asked]
    answers = roomy.answers("/v1/decisions", {"input": evidence, "questions": listed, **detail})
    assert [bits(of_decisions(answer)) for answer in answers] == expected
    assert [answer["x_dicast"]["diagnostics"]["prompt_hash"] for answer in answers] == hashes


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    state=st.one_of(st.lists(_VALUES, max_size=4), _OBJECTS),
    instructions=st.one_of(_TEXTS, _OBJECTS, st.lists(_VALUES, max_size=2)),
    options=st.dictionaries(_TEXTS, st.one_of(st.none(), _TEXTS, _OBJECTS), min_size=2, max_size=8),
)
def test_structured_wording_has_the_same_bits_by_grpc_and_by_system_one(
    roomy: Tiny, state: Any, instructions: Any, options: dict[str, Any]
) -> None:
    """A client flattened structured wording to a string of its own, so that the order of keys was lost."""
    decision = roomy.grpc.decide(state, [dicast.Choice(instructions, options)])
    question = {"type": "choice", "instructions": instructions, "criteria": options}
    answers = roomy.answers("/v1/systemone", {"state": state, "questions": {"q": question}})
    assert bits(of_systemone(answers["q"])) == bits(numbers(decision[0]))
