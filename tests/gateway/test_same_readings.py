"""Every way of reading and every condition, over gRPC and both JSON routes: the same bits and skips."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
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
from dicast import Candidates, Direct, Letters, Options
from dicast_server.service.loading import Served

_CONTEXT = 8192
_NAMES = st.text("abcXYZ 09", min_size=1, max_size=4).map(lambda name: f"<{name}>")
_TEXTS = st.text("aé 1{", max_size=8)
_KINDS = st.one_of(
    st.fixed_dictionaries({"kind": st.just("predicate"), "instructions": _TEXTS}),
    st.fixed_dictionaries(
        {
            "kind": st.just("choice"),
            "instructions": _TEXTS,
            "options": st.dictionaries(_NAMES, _TEXTS, min_size=2, max_size=4),
        }
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("score"),
            "instructions": _TEXTS,
            "levels": st.lists(_NAMES, min_size=2, max_size=4, unique=True),
        }
    ),
)
_CORRECT = st.sampled_from([None, True, False])
_LETTERS = st.builds(Letters, st.sampled_from([None, "plain", "bracket"]), _CORRECT)
_CANDIDATES = st.builds(
    Candidates,
    st.sampled_from([None, "sequence"]),
    normalize_length=st.booleans(),
    correct_prior=st.booleans(),
)
_READOUTS: st.SearchStrategy[dicast.Readout | None] = st.one_of(
    st.none(), _LETTERS, st.builds(Direct, st.booleans()), _CANDIDATES
)


@pytest.fixture(scope="module")
def roomy(loop: Loop) -> Iterator[Tiny]:
    def load() -> Served:
        return load_tiny(context=_CONTEXT, model=tiny_llama(max_position_embeddings=_CONTEXT))

    with tiny_served(loop, load=load) as served:
        yield served


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(),
    kinds=st.lists(_KINDS, min_size=1, max_size=4),
    general=_READOUTS,
    orders=st.integers(1, 3),
    mode=st.sampled_from([None, "shared", "independent"]),
)
def test_every_reading_and_condition_is_the_same_on_all_roads(
    roomy: Tiny,
    data: st.DataObject,
    kinds: list[dict[str, Any]],
    *,
    general: dicast.Readout | None,
    orders: int,
    mode: Any,
) -> None:
    """What only one road can say, or says otherwise, moves the answers of whoever changes roads."""
    readouts = [data.draw(st.one_of(_READOUTS, texts_for(kind))) for kind in kinds]
    conditions = [data.draw(conditions_on(kinds[:place])) for place in range(len(kinds))]
    asked = data.draw(st.sampled_from([None, range(len(kinds)), range(1)]))
    keys = None if asked is None else [f"q{place}" for place in asked]

    questions: dict[str, Any] = {
        f"q{place}": replace(over_grpc(kind), readout=readouts[place], ask_if=conditions[place])  # type: ignore[type-var]
        for place, kind in enumerate(kinds)
    }
    options = Options(readout=general, orders=orders, mode=mode, detail="basic")
    decision = roomy.grpc.decide("s", questions, options=options, ask=keys or ())
    expected = [shape(answer) for answer in decision]

    common: dict[str, Any] = {"x_dicast": {"orders": orders, "mode": mode, "detail": "basic"}}
    if general is not None:
        common["x_dicast"]["readout"] = as_json(general)
    if keys is not None:
        common["ask"] = keys
    own = [
        {
            "ask_if": {
                key: wanted if isinstance(wanted, list) else [wanted] for key, wanted in condition.items()
            },
            **({} if readout is None else {"x_dicast": {"readout": as_json(readout)}}),
        }
        for readout, condition in zip(readouts, conditions, strict=True)
    ]

    body: dict[str, Any] = {
        "state": "s",
        "questions": {
            f"q{place}": {**over_systemone(kind), **own[place]} for place, kind in enumerate(kinds)
        },
        **common,
    }
    reply = roomy.http.post("/v1/systemone", json=body)
    assert reply.status_code == 200, reply.text
    skipped = reply.json().get("x_dicast", {}).get("skipped", {})
    assert [
        (key, told(skipped[key], ()) if answer is None else told(answer, of_systemone(answer)))
        for key, answer in reply.json()["answers"].items()
    ] == expected

    listed = [{**over_decisions(kind), "name": f"q{place}", **own[place]} for place, kind in enumerate(kinds)]
    answers = roomy.answers("/v1/decisions", {"input": "s", "questions": listed, **common})
    assert [
        (answer["name"], told(answer.get("x_dicast", {}).get("skipped", answer), of_decisions(answer)))
        for answer in answers
    ] == expected


def texts_for(kind: dict[str, Any]) -> st.SearchStrategy[dicast.Readout | None]:
    """Candidates with texts of the question's own."""
    count = len(kind.get("options", kind.get("levels", "ab")))
    texts = st.lists(_NAMES, min_size=count, max_size=count, unique=True)
    return st.builds(lambda texts: Candidates(texts=texts), texts)


@st.composite
def conditions_on(draw: st.DrawFn, earlier: list[dict[str, Any]]) -> dict[str, Any]:
    """Conditions on some of the questions before it, as one answer or as several."""
    found: dict[str, Any] = {}
    for place, kind in enumerate(earlier):
        if draw(st.booleans()):
            answers: list[Any] = [True, False]
            if kind["kind"] == "choice":
                answers = list(kind["options"])
            elif kind["kind"] == "score":
                answers = list(range(len(kind["levels"])))
            wanted = draw(st.lists(st.sampled_from(answers), min_size=1, max_size=2))
            found[f"q{place}"] = wanted[0] if draw(st.booleans()) else wanted
    return found


def as_json(readout: dicast.Readout) -> dict[str, Any]:
    said = asdict(readout)
    if not said.get("texts", True):
        del said["texts"]
    return {type(readout).__name__.lower(): said}


def shape(answer: dicast.Answer) -> tuple[str, Any]:
    """What must be the same: the prompts and the bits, or why there are none."""
    if isinstance(answer, dicast.Skipped):
        return answer.key, (answer.because, answer.was)
    assert answer.diagnostics is not None
    return answer.key, (answer.diagnostics.prompt_hash, bits(numbers(answer)))


def told(answer: dict[str, Any], found: Any) -> Any:
    """The same of an answer or a skip in JSON."""
    if "because" in answer:
        return answer["because"], answer["was"]
    return answer["x_dicast"]["diagnostics"]["prompt_hash"], bits(found)
