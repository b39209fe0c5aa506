"""What the server refuses, in the form of each dialect."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from gateway.served import ScriptedServer, failing, uniform
from grpc import StatusCode

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import error_pb2
from dicast_gateway.errors import TABLE, Kind, parse_path

SYSTEMONE: dict[str, Any] = {
    "state": "s",
    "questions": {
        "n": {"type": "noul", "instructions": "?"},
        "a.b[1]": {"type": "choice", "criteria": {"x": None, "y": None}},
        "s": {"type": "score", "criteria": ["lo", "hi"]},
    },
}
# With conditions and a plugin's question and readouts.
MORE_SYSTEMONE: dict[str, Any] = {
    **SYSTEMONE,
    "questions": {
        **SYSTEMONE["questions"],
        "n": {**SYSTEMONE["questions"]["n"], "ask_if": {"s": [0, "1"], "a.b[1]": ["x"]}},
        "p": {"type": "x_rank", "items": [1, 2], "x_dicast": {"readout": {"x_digits": {"base": 10}}}},
    },
    "x_dicast": {"readout": {"x_digits": {}}},
    "ask": ["p", "s"],
}
DECISIONS: dict[str, Any] = {
    "input": [{"role": "user", "content": "s"}],
    "questions": [
        {"type": "predicate", "instructions": "?"},
        {"type": "choice", "instructions": "?", "choices": [{"value": "x"}, {"value": "y"}]},
        {"type": "score", "instructions": "?", "levels": [{"label": "lo"}, {"label": "hi"}]},
    ],
}

MORE_DECISIONS: dict[str, Any] = {
    **DECISIONS,
    "questions": [
        {**DECISIONS["questions"][0], "ask_if": {"scale": [0, "1"], "": ["x"]}},
        {**DECISIONS["questions"][1], "name": ""},
        {**DECISIONS["questions"][2], "name": "scale"},
        {
            "type": "x_rank",
            "name": "p",
            "items": [1, 2],
            "x_dicast": {"readout": {"x_digits": {"base": 10}}},
        },
    ],
    "x_dicast": {"readout": {"x_digits": {}}},
    "ask": ["p", "scale"],
}

ASK = "invalid_request_error"
FAILED = "server_error"
INVALID = StatusCode.INVALID_ARGUMENT
EXHAUSTED = StatusCode.RESOURCE_EXHAUSTED

# The status of the call, then what becomes of it on /v1/systemone and on /v1/decisions.
FAILURES: list[tuple[tuple[StatusCode, str | None], tuple[int, str], tuple[int, str, str]]] = [
    ((INVALID, "CONTEXT_EXCEEDED"), (400, "max_tokens_exceeded"), (400, ASK, "context_length_exceeded")),
    ((INVALID, "NOT_SUPPORTED"), (400, "not_supported"), (400, ASK, "not_supported")),
    ((StatusCode.NOT_FOUND, "MODEL_NOT_FOUND"), (400, "api_usage_error"), (404, ASK, "model_not_found")),
    ((EXHAUSTED, "TOO_LARGE"), (413, "request_too_large"), (413, ASK, "request_too_large")),
    (
        (EXHAUSTED, "OVERLOADED"),
        (429, "rate_limit_exceeded"),
        (429, "rate_limit_exceeded", "rate_limit_exceeded"),
    ),
    ((StatusCode.UNAVAILABLE, "STARTING"), (503, "starting"), (503, FAILED, "starting")),
    ((StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE"), (503, "unavailable"), (503, FAILED, "unavailable")),
    ((StatusCode.UNAVAILABLE, "DRAINING"), (503, "draining"), (503, FAILED, "draining")),
    (
        (StatusCode.DEADLINE_EXCEEDED, "DEADLINE"),
        (504, "deadline_exceeded"),
        (504, FAILED, "deadline_exceeded"),
    ),
    (
        (StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED"),
        (401, "authentication_error"),
        (401, ASK, "invalid_api_key"),
    ),
    # Without our details: from gRPC itself.
    ((StatusCode.UNAVAILABLE, None), (503, "unreachable"), (503, FAILED, "unreachable")),
    ((EXHAUSTED, None), (413, "request_too_large"), (413, ASK, "request_too_large")),
    ((StatusCode.PERMISSION_DENIED, None), (403, "authentication_error"), (403, ASK, "permission_denied")),
    ((StatusCode.UNIMPLEMENTED, None), (400, "not_supported"), (400, ASK, "not_supported")),
    ((StatusCode.DEADLINE_EXCEEDED, None), (504, "deadline_exceeded"), (504, FAILED, "deadline_exceeded")),
    # A reason of a later version is read by its status.
    ((StatusCode.NOT_FOUND, "BRAND_NEW"), (400, "api_usage_error"), (404, ASK, "model_not_found")),
]


@pytest.mark.parametrize(("sent", "systemone", "decisions"), FAILURES)
def test_each_reason(
    http: httpx.Client,
    server: ScriptedServer,
    sent: tuple[StatusCode, str | None],
    systemone: tuple[int, str],
    decisions: tuple[int, str, str],
) -> None:
    code, reason = sent
    server.script = failing(code, "the reason in words", reason)
    reply = http.post("/v1/systemone", json=SYSTEMONE)
    assert list(reply.json()) == ["detail"]
    detail = reply.json()["detail"]
    assert (reply.status_code, detail["error_type"]) == systemone
    if reason in Kind.__members__:
        assert detail["message"] == "the reason in words"
    assert (reply.headers.get("retry-after") == "5") == (reply.status_code == 503)
    reply = http.post("/v1/decisions", json=DECISIONS)
    assert list(reply.json()) == ["error"]
    error = reply.json()["error"]
    assert (reply.status_code, error["type"], error["code"]) == decisions
    assert error["message"] == detail["message"]
    assert (reply.headers.get("retry-after") == "5") == (reply.status_code == 503)


@pytest.mark.parametrize("reason", ["INTERNAL", None])
def test_the_inside_stays_inside(http: httpx.Client, server: ScriptedServer, reason: str | None) -> None:
    code = StatusCode.INTERNAL if reason else StatusCode.UNKNOWN
    server.script = failing(code, "Traceback: /home/me/secret.py", reason)
    for route, body in (("/v1/systemone", SYSTEMONE), ("/v1/decisions", DECISIONS)):
        reply = http.post(route, json=body)
        assert reply.status_code == 500
        assert "secret" not in reply.text
        assert "x-request-id" in reply.text


def test_answers_that_do_not_fit_are_internal_errors(http: httpx.Client, server: ScriptedServer) -> None:
    async def none(request: service_pb.DecideRequest, context: Any) -> service_pb.DecideResponse:
        return service_pb.DecideResponse()

    async def not_finite(request: service_pb.DecideRequest, context: Any) -> service_pb.DecideResponse:
        response = await uniform(request, context)
        response.answers[0].predicate.CopyFrom(pb.PredicateAnswer(probability=float("nan")))
        return response

    for script in (none, not_finite):
        server.script = script
        reply = http.post("/v1/systemone", json=SYSTEMONE)
        assert reply.status_code == 500
        assert reply.json()["detail"]["error_type"] == "internal_error"
        assert reply.headers["x-request-id"]
        reply = http.post("/v1/decisions", json=DECISIONS)
        assert reply.status_code == 500
        assert reply.json()["error"]["type"] == "server_error"


def test_details_of_others_are_not_ours(http: httpx.Client, server: ScriptedServer) -> None:
    # A proxy in between has reasons of its own.
    server.script = failing(StatusCode.UNAVAILABLE, "10.0.0.7:443", "OVERLOADED", domain="envoy")
    reply = http.post("/v1/systemone", json=SYSTEMONE)
    assert (reply.status_code, reply.json()["detail"]["error_type"]) == (503, "unreachable")
    assert "10.0.0.7" not in reply.text


def test_a_full_queue_says_when_to_come_back(http: httpx.Client, server: ScriptedServer) -> None:
    server.script = failing(StatusCode.RESOURCE_EXHAUSTED, "full", "OVERLOADED", retry_s=1.5)
    reply = http.post("/v1/systemone", json=SYSTEMONE)
    assert reply.headers["retry-after"] == "2"
    assert reply.headers["retry-after-ms"] == "1500"
    server.script = failing(StatusCode.UNAVAILABLE, "bye", "DRAINING", retry_s=1)
    assert http.post("/v1/systemone", json=SYSTEMONE).headers["retry-after"] == "1"
    server.script = failing(StatusCode.RESOURCE_EXHAUSTED, "full", "OVERLOADED")
    assert http.post("/v1/decisions", json=DECISIONS).headers["retry-after"] == "1"


PATHS: list[tuple[str, list[Any], str | None]] = [
    ("state", ["state"], "input"),
    ("state.items.items[3].message.content", ["state"], "input[3]"),
    ("state.items[3].result.call_id", ["state"], "input[3]"),
    ("model", ["model"], "model"),
    ("questions", ["questions"], "questions"),
    ("questions[0]", ["questions", "n", "noul"], "questions[0]"),
    ("questions[1].key", ["questions", "a.b[1]"], "questions[1]"),
    ("questions[0].instructions", ["questions", "n", "noul", "instructions"], "questions[0].instructions"),
    ("questions[0].predicate", ["questions", "n", "noul"], "questions[0]"),
    ("questions[0].predicate.when_true", ["questions", "n", "noul", "criteria", "true"], "questions[0]"),
    ("questions[0].predicate.when_false", ["questions", "n", "noul", "criteria", "false"], "questions[0]"),
    ("questions[1].choice.options", ["questions", "a.b[1]", "choice", "criteria"], "questions[1].choices"),
    (
        "questions[1].choice.options[1].value",
        ["questions", "a.b[1]", "choice", "criteria", "y"],
        "questions[1].choices[1].value",
    ),
    (
        "questions[1].choice.options[0].description",
        ["questions", "a.b[1]", "choice", "criteria", "x"],
        "questions[1].choices[0].description",
    ),
    ("questions[2].score.levels", ["questions", "s", "score", "criteria"], "questions[2].levels"),
    (
        "questions[2].score.levels[1].description",
        ["questions", "s", "score", "criteria", 1],
        "questions[2].levels[1].description",
    ),
    ("questions[9].key", ["questions", 9, "key"], "questions[9]"),
    ("options.cache_salt", ["x_dicast", "cache_salt"], "prompt_cache_key"),
    ("options.temperature", ["x_dicast", "temperature"], "x_dicast.temperature"),
    (
        "questions[1].readout.letters.style",
        ["questions", "a.b[1]", "choice", "x_dicast", "readout", "letters", "style"],
        "questions[1].x_dicast.readout.letters.style",
    ),
    ("end_user", ["end_user"], "safety_identifier"),
]


READOUT = ["questions", "p", "x_rank", "x_dicast", "readout", "x_digits"]
MORE_PATHS: list[tuple[str, list[Any], str]] = [
    ("ask[1]", ["ask", 1], "ask[1]"),
    ("questions[0].ask_if", ["questions", "n", "noul", "ask_if"], "questions[0].ask_if"),
    ("questions[0].ask_if[0].key", ["questions", "n", "noul", "ask_if", "s"], "questions[0].ask_if.scale"),
    (
        "questions[0].ask_if[0].any_of[1]",
        ["questions", "n", "noul", "ask_if", "s", 1],
        "questions[0].ask_if.scale[1]",
    ),
    ("questions[0].ask_if[1].any_of", ["questions", "n", "noul", "ask_if", "a.b[1]"], "questions[0].ask_if."),
    ("options.readout.extension.name", ["x_dicast", "readout", "x_digits"], "x_dicast.readout.x_digits"),
    (
        "options.readout.extension.json.base",
        ["x_dicast", "readout", "x_digits", "base"],
        "x_dicast.readout.x_digits.base",
    ),
    ("questions[3].readout.extension.name", READOUT, "questions[3].x_dicast.readout.x_digits"),
    (
        "questions[3].readout.extension.json.base",
        [*READOUT, "base"],
        "questions[3].x_dicast.readout.x_digits.base",
    ),
    ("questions[3]", ["questions", "p", "x_rank"], "questions[3]"),
    ("questions[3].extension.type", ["questions", "p", "x_rank", "type"], "questions[3].type"),
    ("questions[3].extension.json", ["questions", "p", "x_rank"], "questions[3]"),
    (
        "questions[3].extension.json.items[1]",
        ["questions", "p", "x_rank", "items", 1],
        "questions[3].items[1]",
    ),
]


@pytest.mark.parametrize(("field", "loc", "param"), MORE_PATHS)
def test_paths_of_conditions_and_plugins_are_translated(
    http: httpx.Client, server: ScriptedServer, field: str, loc: list[Any], param: str
) -> None:
    server.script = failing(StatusCode.INVALID_ARGUMENT, "as a whole", "INVALID", {field: "is wrong"})
    (fault,) = http.post("/v1/systemone", json=MORE_SYSTEMONE).json()["detail"]
    assert fault == {"loc": ["body", *loc], "msg": "is wrong", "type": "invalid"}
    error = http.post("/v1/decisions", json=MORE_DECISIONS).json()["error"]
    assert (error["param"], error["message"]) == (param, f"{param}: is wrong")


@pytest.mark.parametrize("reason", ["INVALID", "LIMIT_EXCEEDED"])
@pytest.mark.parametrize(("field", "loc", "param"), PATHS)
def test_paths_are_translated(
    http: httpx.Client,
    server: ScriptedServer,
    *,
    reason: str,
    field: str,
    loc: list[Any],
    param: str | None,
) -> None:
    server.script = failing(
        StatusCode.INVALID_ARGUMENT, "as a whole", reason, {field: "is wrong", "options.seed": "too"}
    )
    reply = http.post("/v1/systemone", json=SYSTEMONE)
    assert reply.status_code == 422
    first, second = reply.json()["detail"]
    assert first == {"loc": ["body", *loc], "msg": "is wrong", "type": reason.lower()}
    assert second["loc"] == ["body", "x_dicast", "seed"]
    reply = http.post("/v1/decisions", json=DECISIONS)
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert error["param"] == param
    assert error["message"] == f"{param}: is wrong; x_dicast.seed: too"


def test_messages_speak_the_paths_of_the_dialect(http: httpx.Client, server: ScriptedServer) -> None:
    server.script = failing(
        StatusCode.INVALID_ARGUMENT,
        "questions[1].choice: has 9000 tokens; the model reads 8192",
        "CONTEXT_EXCEEDED",
        {"questions[1].choice": "has 9000 tokens; the model reads 8192"},
    )
    detail = http.post("/v1/systemone", json=SYSTEMONE).json()["detail"]
    assert detail["message"] == ("questions.a.b[1].choice.criteria: has 9000 tokens; the model reads 8192")
    error = http.post("/v1/decisions", json=DECISIONS).json()["error"]
    assert error["message"] == "questions[1]: has 9000 tokens; the model reads 8192"
    assert error["param"] == "questions[1]"
    server.script = failing(
        StatusCode.NOT_FOUND,
        "there is no model 'm'; this server has a",
        "MODEL_NOT_FOUND",
        {"model": "is not a"},
    )
    error = http.post("/v1/decisions", json=DECISIONS).json()["error"]
    assert (error["message"], error["param"]) == ("there is no model 'm'; this server has a", "model")


def test_a_refusal_without_a_field(http: httpx.Client, server: ScriptedServer) -> None:
    server.script = failing(StatusCode.INVALID_ARGUMENT, "no good", "INVALID")
    assert http.post("/v1/systemone", json=SYSTEMONE).json() == {
        "detail": [{"loc": ["body"], "msg": "no good", "type": "invalid"}]
    }
    error = http.post("/v1/decisions", json=DECISIONS).json()["error"]
    assert (error["message"], error["param"]) == ("no good", None)


def test_every_reason_of_the_contract_has_a_row() -> None:
    reasons = {name.removeprefix("ERROR_REASON_") for name in dict(error_pb2.ErrorReason.items())} - {
        "UNSPECIFIED"
    }
    assert reasons <= set(Kind.__members__)
    assert set(TABLE) == set(Kind)


def test_paths_are_read() -> None:
    assert parse_path("questions[2].choice.options[0].value") == (
        "questions",
        2,
        "choice",
        "options",
        0,
        "value",
    )
    assert parse_path("") == ()
