"""Abstaining over gRPC and both JSON routes: the same numbers, and nothing new for who does not ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from gateway.eventstream import told
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
from made_calibrations import calibration, given, threshold

import dicast
from dicast import Abstain, Options
from dicast_server.calibration.kinds import KINDS

QUESTIONS: list[dict[str, Any]] = [
    {"kind": "predicate", "instructions": "Is it?"},
    {"kind": "choice", "instructions": "Which?", "options": {"a": "one", "b": "two", "c": "three"}},
    {"kind": "score", "instructions": "How much?", "levels": ["low", "mid", "high"]},
]
THRESHOLDS = [threshold(kind, 0.1, 0.999) for kind in KINDS] + [threshold(kind, 0.2, 0.0) for kind in KINDS]


@pytest.fixture(scope="module")
def tiny(loop: Loop) -> Iterator[Tiny]:
    with tiny_served(loop, calibration=given(calibration(thresholds=THRESHOLDS))) as served:
        yield served


def systemone(abstain: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    ours = {**({"abstain": abstain} if abstain else {}), **more}
    questions = {str(place): over_systemone(question) for place, question in enumerate(QUESTIONS)}
    return {"state": "s", "questions": questions, **({"x_dicast": ours} if ours else {})}


def decisions(abstain: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    ours = {**({"abstain": abstain} if abstain else {}), **more}
    body = {"input": "s", "questions": [over_decisions(question) for question in QUESTIONS]}
    return {**body, **({"x_dicast": ours} if ours else {})}


def over_the_wire(tiny: Tiny, abstain: Abstain | None = None) -> list[dicast.Answer]:
    questions = {str(place): over_grpc(question) for place, question in enumerate(QUESTIONS)}
    return list(tiny.grpc.decide("s", questions, options=Options(abstain=abstain, detail="basic")))


@pytest.mark.parametrize("asked", [{"max_error": 0.1}, {"min_confidence": 1.0}, {"min_option_mass": 1.0}])
def test_what_would_be_the_answer_is_the_same_on_all_roads(tiny: Tiny, asked: dict[str, Any]) -> None:
    plain = [bits(numbers(answer)) for answer in over_the_wire(tiny)]
    refused = over_the_wire(tiny, Abstain(**asked))
    assert all(isinstance(each, dicast.Refused) and each.reason == "abstained" for each in refused)
    would_be = [each.would_be for each in refused if isinstance(each, dicast.Refused)]
    assert [bits(numbers(each)) for each in would_be if each is not None] == plain

    reply = tiny.http.post("/v1/systemone", json=systemone(asked, partial=True)).json()
    assert reply["answers"] == {}
    left = list(reply["x_dicast"]["refused"].values())
    assert [bits(of_systemone(each["would_be"])) for each in left] == plain
    assert [each["would_be"]["type"] for each in left] == ["noul", "choice", "score"]
    assert {each["reason"] for each in left} == {"REASON_ABSTAINED"}

    answers = tiny.answers("/v1/decisions", decisions(asked))
    assert {answer["type"] for answer in answers} == {"refusal"}
    told_of = [answer["x_dicast"]["refused"] for answer in answers]
    assert [bits(of_decisions(each["would_be"])) for each in told_of] == plain
    assert [each["would_be"]["type"] for each in told_of] == ["predicate", "choice", "score"]

    events = told(
        tiny.http.post("/v1/decisions", json=decisions(asked), headers={"accept": "text/event-stream"})
    )
    assert [
        event["x_dicast"] for event in sorted(events.all("answer"), key=lambda event: event["index"])
    ] == [answer["x_dicast"] for answer in answers]


@pytest.mark.parametrize("asked", [None, {"max_error": 0.2}])
def test_an_answer_that_is_certain_enough_is_an_answer_and_nothing_more(
    tiny: Tiny, asked: dict[str, Any] | None
) -> None:
    plain = [bits(numbers(answer)) for answer in over_the_wire(tiny)]
    over_one = tiny.http.post("/v1/systemone", json=systemone(asked)).json()
    assert list(over_one) == ["model", "answers", "usage"]
    assert [bits(of_systemone(answer)) for answer in over_one["answers"].values()] == plain
    answers = tiny.answers("/v1/decisions", decisions(asked))
    assert [bits(of_decisions(answer)) for answer in answers] == plain
    assert not any("x_dicast" in answer for answer in [*over_one["answers"].values(), *answers])


def test_systemone_has_no_form_for_an_abstention_that_nobody_wants_to_have(tiny: Tiny) -> None:
    reply = tiny.http.post("/v1/systemone", json=systemone({"max_error": 0.1}))
    assert (reply.status_code, reply.json()["detail"]["error_type"]) == (400, "refused")


@pytest.mark.parametrize(
    ("wanted", "more"), [(0.05, {}), (0.9, {}), (0.0, {}), ("much", {}), (0.1, {"temperature": 2.0})]
)
def test_a_wanted_error_that_nothing_bounds_is_the_callers_mistake(
    tiny: Tiny, wanted: Any, more: dict[str, Any]
) -> None:
    before = tiny.forwards.count
    for route, body in (("/v1/systemone", systemone), ("/v1/decisions", decisions)):
        reply = tiny.http.post(route, json=body({"max_error": wanted}, **more))
        assert reply.status_code in {400, 422}
        assert "max_error" in reply.text
    assert tiny.forwards.count == before


def test_the_offset_and_the_source_are_told_in_json(tiny: Tiny) -> None:
    (first, *_) = tiny.answers("/v1/decisions", decisions(None, detail="basic"))
    diagnostics = first["x_dicast"]["diagnostics"]
    assert diagnostics["temperature_source"] == "TEMPERATURE_SOURCE_FITTED"
    assert (diagnostics["temperature"], diagnostics["offset"]) == (2.5, 0.75)
