"""What went wrong on the wire elsewhere: counts at their limits, choices, models' names, order, nulls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from gateway.served import ScriptedServer
from gateway.tiny import Tiny

import dicast
from dicast import Choice, Options

STATE = "Parcel 7 has not moved for nine days."
NOUL = {"type": "noul", "instructions": "Is the parcel late?"}
PREDICATE = {"type": "predicate", "instructions": "Is the parcel late?"}


def one(question: Any, state: Any = STATE) -> dict[str, Any]:
    return {"model": "jev-latest", "state": state, "questions": {"late": question}}


def asked(*questions: Any) -> dict[str, Any]:
    return {"model": "jev-latest", "input": STATE, "questions": list(questions)}


@pytest.fixture
def spoilt(tiny: Tiny) -> Iterator[Tiny]:
    """An engine whose scores a test may set."""
    yield tiny
    tiny.forwards.spoil = None


def test_structured_states_keep_their_order_and_their_letters(tiny: Tiny) -> None:
    """A client made one string of a structured state, because it thought that states are text."""
    zeta = {"zeta": 1, "alpha": {"k": [True, None, "é"]}}
    states: list[Any] = ["p", zeta, ["p", {"a": 1}]]
    hashes = []
    for state in states:
        body = {**one(NOUL, state), "x_dicast": {"detail": "basic"}}
        answer = tiny.answers("/v1/systemone", body)["late"]
        hashes.append(answer["x_dicast"]["diagnostics"]["prompt_hash"])
    shown = '{"zeta": 1, "alpha": {"k": [true, null, "é"]}}'
    by_text = tiny.answers("/v1/systemone", {**one(NOUL, shown), "x_dicast": {"detail": "basic"}})
    assert by_text["late"]["x_dicast"]["diagnostics"]["prompt_hash"] == hashes[1]
    assert len(set(hashes)) == 3


def test_the_most_options_are_answered_and_one_more_reaches_no_forward(tiny: Tiny) -> None:
    """A type with one value too many passed a client unseen, and failed only at the service."""
    options = {f"o{place:03}": f"d{place}" for place in range(255)}
    question = {"type": "choice", "instructions": "Which?", "criteria": options}
    answer = tiny.answers("/v1/systemone", one(question))["late"]
    assert list(answer["probabilities"]) == list(options)
    assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-6)
    choices = [{"value": name, "description": text} for name, text in options.items()]
    listed = {"type": "choice", "instructions": "Which?", "choices": choices}
    (answer,) = tiny.answers("/v1/decisions", asked(listed))
    assert [each["value"] for each in answer["probabilities"]] == list(options)

    count = tiny.forwards.count
    more = {**question, "criteria": {**options, "o255": "d255"}}
    reply = tiny.http.post("/v1/systemone", json=one(more))
    assert reply.status_code == 422
    fault = reply.json()["detail"][0]
    assert fault["loc"] == ["body", "questions", "late", "choice", "criteria"]
    assert fault["msg"] == "has 256 options; at most 255 are read"
    reply = tiny.http.post("/v1/decisions", json=asked({**listed, "choices": [*choices, {"value": "o255"}]}))
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "questions[0].choices"
    assert reply.json()["error"]["code"] == "limit_exceeded"
    assert "at most 255" in reply.json()["error"]["message"]
    assert tiny.forwards.count == count


def test_the_most_questions_are_all_answered_and_one_more_none(tiny: Tiny) -> None:
    """A batch was cut by tokens alone, and met a limit on questions that nobody had published."""
    cap = tiny.grpc.model().limits.questions
    questions = {f"q{place}": NOUL for place in range(cap)}
    assert list(tiny.answers("/v1/systemone", {"state": STATE, "questions": questions})) == list(questions)
    assert len(tiny.answers("/v1/decisions", asked(*[PREDICATE] * cap))) == cap
    count = tiny.forwards.count
    more = {**questions, "one more": NOUL}
    reply = tiny.http.post("/v1/systemone", json={"state": STATE, "questions": more})
    assert reply.status_code == 422
    assert f"at most {cap} are answered" in reply.json()["detail"][0]["msg"]
    reply = tiny.http.post("/v1/decisions", json=asked(*[PREDICATE] * (cap + 1)))
    assert reply.status_code == 400
    assert f"at most {cap} are answered" in reply.json()["error"]["message"]
    assert tiny.forwards.count == count


@pytest.mark.parametrize("scores", [(0.0, 1.0, 1.0), (0.0, 1.0, 1.0 + 1e-9), (2.0, 2.0 + 1e-15, 2.0)])
def test_the_choice_is_the_first_of_the_largest_numbers_that_are_printed(
    spoilt: Tiny, scores: tuple[float, ...]
) -> None:
    """The option that was named was not the one with the largest probability beside it."""
    spoilt.forwards.spoil = lambda found: replace(found, values=scores)
    question = {"type": "choice", "instructions": "Which?", "criteria": {"a": "x", "b": "y", "c": "z"}}
    answer = spoilt.answers("/v1/systemone", one(question))["late"]
    printed = answer["probabilities"]
    assert answer["choice"] == max(printed, key=lambda name: printed[name])
    choices = [{"value": name} for name in "abc"]
    (answer,) = spoilt.answers(
        "/v1/decisions", asked({"type": "choice", "instructions": "Which?", "choices": choices})
    )
    by_value = {each["value"]: each["probability"] for each in answer["probabilities"]}
    assert answer["choice"] == max(by_value, key=lambda name: by_value[name])


@pytest.mark.parametrize("name", ["jev-latest", "jev-preview", "tiny", ""])
def test_the_reply_names_what_ran(tiny: Tiny, name: str) -> None:
    """A reply said nothing of its model, so that logs guessed it from the request."""
    for route, body in (("/v1/systemone", one(NOUL)), ("/v1/decisions", asked(PREDICATE))):
        reply = tiny.http.post(route, json={**body, "model": name})
        assert reply.json()["model"] == "tiny"
        unnamed = {key: value for key, value in body.items() if key != "model"}
        assert tiny.http.post(route, json=unnamed).json()["model"] == "tiny"
    assert tiny.grpc.decide(STATE, [dicast.Predicate("?")], model=name).model == "tiny"


def test_the_order_of_options_is_that_of_the_body(tiny: Tiny) -> None:
    """A map of the wire format sorted the options, or dealt them anew, between caller and prompt."""
    names = ["zeta", "alpha", "10", "9", "mid", "b", "a"]
    decision = tiny.grpc.decide(
        STATE, {"late": Choice("Which?", dict.fromkeys(names, "d"))}, options=Options(detail="basic")
    )
    criteria = ", ".join(f'"{name}": "d"' for name in names)
    body = (
        f'{{"state": {json.dumps(STATE)}, "x_dicast": {{"detail": "basic"}}, "questions": '
        f'{{"late": {{"type": "choice", "instructions": "Which?", "criteria": {{{criteria}}}}}}}}}'
    )
    reply = tiny.http.post("/v1/systemone", content=body)
    answer = reply.json()["answers"]["late"]
    assert list(answer["probabilities"]) == names == list(decision.choice("late").probabilities)
    diagnostics = decision[0].diagnostics
    assert diagnostics is not None
    assert answer["x_dicast"]["diagnostics"]["prompt_hash"] == diagnostics.prompt_hash


def test_other_kinds_of_json_as_wording(tiny: Tiny) -> None:
    """A provider took strings alone for what another took as any JSON, and hid why it refused."""
    question = {
        "type": "choice",
        "instructions": {"task": "route", "field": "body"},
        "criteria": {"a": ["x", "y"], "b": {"why": "z"}, "c": None},
    }
    assert list(tiny.answers("/v1/systemone", one(question))["late"]["probabilities"]) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("question", "shape"),
    [
        ({**NOUL, "criteria": ["a", "b"]}, 'null or an object {"true": …, "false": …}'),
        ({"type": "score", "criteria": {"0": "a", "1": "b"}}, "an array with a description per level"),
        ({"type": "choice", "criteria": ["a", "b"]}, "an object with an entry per option"),
    ],
)
def test_criteria_of_another_type_are_told_the_right_shape(
    http: httpx.Client, server: ScriptedServer, question: Any, shape: str
) -> None:
    """Most failures of a tool were one field in the shape of another type, refused without a hint."""
    reply = http.post("/v1/systemone", json=one(question))
    assert reply.status_code == 422
    fault = reply.json()["detail"][0]
    assert fault["loc"] == ["body", "questions", "late", question["type"], "criteria"]
    assert shape in fault["msg"]
    assert not server.requests
