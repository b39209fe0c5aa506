"""Server-sent events on both routes: the same answers as in the JSON reply, each as soon as it is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import openai
import pytest
from gateway.eventstream import (
    DECISIONS,
    EVENTS,
    StreamEvent,
    both_routes,
    saying,
    told,
    verbatim,
)
from gateway.served import Loop, ScriptedServer, failing, summary, uniform
from gateway.test_server_errors import FAILURES, SYSTEMONE
from google.protobuf.duration_pb2 import Duration
from grpc import StatusCode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dicast import jsontext
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import error_pb2
from dicast_gateway.accept import wants_events


@both_routes
def test_answers_come_as_they_are_read(
    http: httpx.Client, server: ScriptedServer, route: str, body: dict[str, Any]
) -> None:
    async def backwards(request: service_pb.DecideRequest, context: Any) -> AsyncIterator[StreamEvent]:
        response = await uniform(request, context)
        for answer in reversed(response.answers):
            yield answer
        yield response.summary

    server.stream_script = backwards
    reply = http.post(route, json=body, headers={**EVENTS, "x-request-id": "mine"})
    found = told(reply)
    assert found.names == ["answer", "answer", "answer", "done"]
    place = "id" if route == "/v1/systemone" else "index"
    assert [event[place] for event in found.all("answer")] == (
        ["s", "a.b[1]", "n"] if place == "id" else [2, 1, 0]
    )
    assert found.all("done")[0]["request_id"] == "mine"
    assert reply.headers["x-request-id"] == reply.headers["x-typesafe-request-id"] == "mine"
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["x-accel-buffering"] == "no"
    assert "content-length" not in reply.headers
    assert found.together(route) == http.post(route, json=body).json()
    # Both calls asked the same, with the same metadata and deadline.
    assert server.requests[0] == server.requests[1]
    assert server.metadata[0]["x-request-id"] == "mine"
    assert 55 < server.deadlines[0] < 61


@both_routes
def test_an_answer_does_not_wait_for_the_next(
    http: httpx.Client, loop: Loop, server: ScriptedServer, route: str, body: dict[str, Any]
) -> None:
    seen = asyncio.Event()

    async def one_by_one(request: service_pb.DecideRequest, context: Any) -> AsyncIterator[StreamEvent]:
        response = await uniform(request, context)
        for answer in response.answers:
            yield answer
            await seen.wait()
            seen.clear()
        yield response.summary

    async def set_seen() -> None:
        seen.set()

    server.stream_script = one_by_one
    names = []
    with http.stream("POST", route, json=body, headers=EVENTS) as reply:
        for line in reply.iter_lines():
            if line.startswith("event: "):
                names.append(line.removeprefix("event: "))
            elif not line and names[-1] == "answer":
                loop.run(set_seen())
    assert names == ["answer", "answer", "answer", "done"]


FLOATS = st.floats(0, 1)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@both_routes
def test_the_events_together_are_the_json_reply(
    http: httpx.Client, server: ScriptedServer, route: str, body: dict[str, Any], data: st.DataObject
) -> None:
    answers = [
        pb.Answer(index=0, predicate=pb.PredicateAnswer(probability=data.draw(FLOATS))),
        pb.Answer(
            index=1,
            choice=pb.ChoiceAnswer(
                value=pb.OptionValue(string_value="x"),
                confidence=data.draw(FLOATS),
                probabilities=[
                    pb.OptionProbability(
                        value=pb.OptionValue(string_value=name), probability=data.draw(FLOATS)
                    )
                    for name in "xy"
                ],
            ),
        ),
        pb.Answer(
            index=2,
            score=pb.ScoreAnswer(
                score=data.draw(FLOATS),
                confidence=data.draw(FLOATS),
                probabilities=[
                    pb.LevelProbability(level=level, label=label, probability=data.draw(FLOATS))
                    for level, label in enumerate(("lo", "hi"))
                ],
            ),
        ),
    ]
    if route == "/v1/systemone":
        body = {**body, "x_dicast": {"partial": True}}
    if data.draw(st.booleans()):
        answers[1] = pb.Answer(index=1, refused=pb.RefusedAnswer(message="no"))
    if data.draw(st.booleans()):
        first = "n" if route == "/v1/systemone" else "0"
        was = pb.AnswerValue(bool_value=data.draw(st.booleans())) if data.draw(st.booleans()) else None
        answers[2] = pb.Answer(index=2, skipped=pb.SkippedAnswer(because=first, was=was))
    if data.draw(st.booleans()):
        answers[0].diagnostics.option_mass = data.draw(FLOATS)
    order = data.draw(st.permutations(range(3)))

    async def at_once(request: service_pb.DecideRequest, context: Any) -> service_pb.DecideResponse:
        return service_pb.DecideResponse(answers=answers, summary=summary())

    server.script, server.stream_script = at_once, saying(*(answers[index] for index in order), summary())
    whole = jsontext.parse(http.post(route, json=body).text)
    together = told(http.post(route, json=body, headers=EVENTS)).together(route)
    assert verbatim(together) == verbatim(whole)


@both_routes
@pytest.mark.parametrize("sent", [failure[0] for failure in FAILURES])
def test_a_call_that_fails_before_the_first_answer(
    http: httpx.Client,
    server: ScriptedServer,
    route: str,
    body: dict[str, Any],
    sent: tuple[StatusCode, str | None],
) -> None:
    server.script = failing(sent[0], "the reason in words", sent[1], {"questions[1].choice": "is wrong"})
    same_failure(http, route, body)


@both_routes
@pytest.mark.parametrize(
    "reason", ["CONTEXT_EXCEEDED", "INVALID", "MODEL_NOT_FOUND", "OVERLOADED", "DEADLINE"]
)
def test_a_request_that_fails_before_the_first_answer(
    http: httpx.Client, server: ScriptedServer, route: str, body: dict[str, Any], reason: str
) -> None:
    # A stream has its failures in messages, with the same details.
    server.script = failing(CODES[reason], "in words", reason, {"questions[1].choice": "no"}, retry_s=1.5)
    server.stream_script = saying(error(reason))
    same_failure(http, route, body)


CODES = {
    "CONTEXT_EXCEEDED": StatusCode.INVALID_ARGUMENT,
    "INVALID": StatusCode.INVALID_ARGUMENT,
    "MODEL_NOT_FOUND": StatusCode.NOT_FOUND,
    "OVERLOADED": StatusCode.RESOURCE_EXHAUSTED,
    "DEADLINE": StatusCode.DEADLINE_EXCEEDED,
}


def error(reason: str) -> error_pb2.DecideError:
    return error_pb2.DecideError(
        code=CODES[reason].value[0],
        reason=error_pb2.ErrorReason.Value(f"ERROR_REASON_{reason}"),
        message="in words",
        violations=[error_pb2.FieldViolation(field="questions[1].choice", description="no")],
        retry_delay=Duration(seconds=1, nanos=500_000_000),
    )


def same_failure(http: httpx.Client, route: str, body: Any) -> None:
    plain, streamed = (http.post(route, json=body, headers=headers) for headers in ({}, EVENTS))
    assert streamed.status_code == plain.status_code >= 400
    assert streamed.json() == plain.json()
    for name in ("content-type", "retry-after", "retry-after-ms"):
        assert streamed.headers.get(name) == plain.headers.get(name)


@both_routes
def test_bad_requests_are_replies_of_their_own(
    http: httpx.Client, server: ScriptedServer, route: str, body: dict[str, Any]
) -> None:
    bodies: list[Any] = [{}, [], {**body, "questions": None}]
    for bad in bodies:
        same_failure(http, route, bad)
    headers = {**EVENTS, "x-request-timeout": "never"}
    assert http.post(route, json=body, headers=headers).status_code in (400, 422)
    assert not server.requests


@both_routes
@pytest.mark.parametrize("reason", ["CONTEXT_EXCEEDED", "INVALID", "OVERLOADED"])
def test_a_failure_between_answers_ends_the_stream(
    http: httpx.Client, server: ScriptedServer, route: str, body: dict[str, Any], reason: str
) -> None:
    async def break_off(request: service_pb.DecideRequest, context: Any) -> AsyncIterator[StreamEvent]:
        yield (await uniform(request, context)).answers[0]
        yield error(reason)

    server.stream_script = break_off
    found = told(http.post(route, json=body, headers=EVENTS))
    assert found.names == ["answer", "error"]
    server.script = failing(CODES[reason], "in words", reason, {"questions[1].choice": "no"})
    plain = http.post(route, json=body)
    assert found.all("error") == [{**plain.json(), "status": plain.status_code}]


def test_a_refusal_fails_a_stream_of_system_one(http: httpx.Client, server: ScriptedServer) -> None:
    refused = pb.Answer(index=1, refused=pb.RefusedAnswer(message="not finite"))
    noul = pb.Answer(predicate=pb.PredicateAnswer(probability=0.5))
    server.stream_script = saying(noul, refused, summary())
    found = told(http.post("/v1/systemone", json=SYSTEMONE, headers=EVENTS))
    assert found.names == ["answer", "error"]
    detail = {"error_type": "refused", "message": "questions.a.b[1]: not finite"}
    assert found.all("error") == [{"detail": detail, "status": 400}]

    server.stream_script = saying(refused, noul, summary())
    reply = http.post("/v1/systemone", json=SYSTEMONE, headers=EVENTS)
    assert (reply.status_code, reply.json()) == (400, {"detail": detail})

    two = DECISIONS["questions"][:2]
    found = told(http.post("/v1/decisions", json={**DECISIONS, "questions": two}, headers=EVENTS))
    assert found.all("answer")[0] == {"index": 1, "type": "refusal", "name": None}
    assert found.names == ["answer", "answer", "done"]


@both_routes
def test_what_a_server_must_not_do_is_an_internal_error(
    http: httpx.Client,
    server: ScriptedServer,
    route: str,
    body: dict[str, Any],
) -> None:
    bad: list[list[StreamEvent]] = [
        [],
        [pb.Answer(index=9)],
        [pb.Answer(index=1)],
        [summary()],
        [pb.Answer(index=1, predicate=pb.PredicateAnswer(probability=float("nan")))],
    ]
    good = pb.Answer(index=0, predicate=pb.PredicateAnswer(probability=0.5))
    for events in bad:
        for first in ([], [good]):
            server.stream_script = saying(*first, *events)
            reply = http.post(route, json=body, headers=EVENTS)
            if first:
                found = told(reply)
                assert found.names == ["answer", "error"], events
                assert found.all("error")[0]["status"] == 500
            else:
                assert reply.status_code == 500, events
                assert list(reply.json()) == [{"/v1/systemone": "detail", "/v1/decisions": "error"}[route]]


ACCEPTS = [
    ("text/event-stream", True),
    ("Text/Event-Stream", True),
    ("text/event-stream; charset=utf-8", True),
    ("text/event-stream;q=0.001", True),
    ("text/event-stream, */*", True),
    ("text/event-stream, */*;q=0.1", True),
    ("application/json;q=0.5, text/event-stream;q=0.9", True),
    ("application/json; q=0.5,text/event-stream ; Q = 0.9 , text/html", True),
    ("text/event-stream, application/*;q=0.2, */*", True),
    ("", False),
    ("*/*", False),
    ("text/*", False),
    ("application/json", False),
    ("text/html", False),
    ("text/event-stream;q=0", False),
    ("text/event-stream;q=0.0", False),
    ("text/event-stream;q=nan", False),
    ("text/event-stream;q=2", False),
    ("text/event-stream;q=0.5, */*", False),
    ("text/event-stream, application/json", False),
    ("application/json, text/event-stream;q=0.9", False),
    ("text/event-stream;q=0.1, application/*;q=0.2, */*;q=0.01", False),
    ("text/event-streams", False),
    (",;q=1,;;,", False),
]


@pytest.mark.parametrize(("accept", "wanted"), ACCEPTS)
def test_what_accept_asks_for(accept: str, *, wanted: bool) -> None:
    assert wants_events([accept]) == wanted
    assert wants_events(accept.split(",")) == wanted
    assert not wants_events([])


@both_routes
def test_who_does_not_ask_for_events_gets_json(
    http: httpx.Client, server: ScriptedServer, route: str, body: dict[str, Any]
) -> None:
    for accept in ("application/json", "*/*", "text/event-stream;q=0.1, */*"):
        reply = http.post(route, json=body, headers={"accept": accept})
        assert reply.headers["content-type"] == "application/json"
        assert len(reply.json()["answers"]) == 3
    for method in ("GET", "HEAD"):
        reply = http.request(method, route, headers=EVENTS)
        assert (reply.status_code, reply.headers["content-type"]) == (405, "application/json")


@pytest.fixture
def openai_client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="k", base_url=url + "/v1", max_retries=0) as client:
        yield client


def test_openai_reads_the_events(openai_client: openai.OpenAI, server: ScriptedServer) -> None:
    def ask() -> Any:
        return openai_client.post(
            "/decisions",
            body=DECISIONS,
            cast_to=object,
            options={"headers": EVENTS},
            stream=True,
            stream_cls=openai.Stream[Any],
        )

    assert [event.get("index") for event in ask()] == [0, 1, 2, None]

    async def break_off(request: service_pb.DecideRequest, context: Any) -> AsyncIterator[StreamEvent]:
        yield (await uniform(request, context)).answers[0]
        yield error("OVERLOADED")

    server.stream_script = break_off
    with pytest.raises(openai.APIError, match=r"questions\[1\]: no"):
        list(ask())
