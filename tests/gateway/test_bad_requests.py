"""Requests of a wrong shape: refused in the dialect's own form, and the server hears nothing of them."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from gateway.served import ScriptedServer

NOUL = {"type": "noul", "instructions": "?"}
PREDICATE = {"type": "predicate", "instructions": "?"}


def one(question: Any) -> dict[str, Any]:
    return {"state": "s", "questions": {"q": question}}


def asked(question: Any) -> dict[str, Any]:
    return {"input": "s", "questions": [question]}


def about(item: Any) -> dict[str, Any]:
    return {"input": [item], "questions": [PREDICATE]}


SYSTEMONE_SHAPES: list[tuple[Any, list[Any], str]] = [
    ({"questions": {"q": NOUL}}, ["body", "state"], "required"),
    ({"state": None, "questions": {"q": NOUL}}, ["body", "state"], "string, an object or an array"),
    ({"state": 3, "questions": {"q": NOUL}}, ["body", "state"], "string, an object or an array"),
    ({"state": True, "questions": {"q": NOUL}}, ["body", "state"], "string, an object or an array"),
    ({"state": "s", "model": 3, "questions": {"q": NOUL}}, ["body", "model"], "string"),
    ({"state": "s", "model": None, "questions": {"q": NOUL}}, ["body", "model"], "string"),
    ({"state": "s"}, ["body", "questions"], "required"),
    ({"state": "s", "questions": None}, ["body", "questions"], "dictionary"),
    ({"state": "s", "questions": [NOUL]}, ["body", "questions"], "dictionary"),
    ({"state": "s", "questions": {}}, ["body", "questions"], "at least 1"),
    (one("?"), ["body", "questions", "q"], "dictionary"),
    (one({"type": "boolean"}), ["body", "questions", "q"], "'noul', 'choice', 'score'"),
    (one({"instructions": "?"}), ["body", "questions", "q"], "type"),
    (one({"type": 3}), ["body", "questions", "q"], "type"),
    (one({**NOUL, "instructions": 5}), ["body", "questions", "q", "noul", "instructions"], "string, an"),
    (one({**NOUL, "instructions": True}), ["body", "questions", "q", "noul", "instructions"], "string, an"),
    (one({**NOUL, "criteria": ["a", "b"]}), ["body", "questions", "q", "noul", "criteria"], '{"true": …'),
    (one({**NOUL, "criteria": "x"}), ["body", "questions", "q", "noul", "criteria"], '{"true": …'),
    (one({**NOUL, "criteria": {"yes": "x"}}), ["body", "questions", "q", "noul", "criteria", "yes"], "extra"),
    (one({**NOUL, "criteria": {"true": 1}}), ["body", "questions", "q", "noul", "criteria", "true"], "array"),
    (one({**NOUL, "levels": []}), ["body", "questions", "q", "noul", "levels"], "extra"),
    (one({"type": "choice"}), ["body", "questions", "q", "choice", "criteria"], "required"),
    (one({"type": "choice", "criteria": None}), ["body", "questions", "q", "choice", "criteria"], "object"),
    (one({"type": "choice", "criteria": {}}), ["body", "questions", "q", "choice", "criteria"], "at least 1"),
    (one({"type": "choice", "criteria": ["a"]}), ["body", "questions", "q", "choice", "criteria"], "object"),
    (
        one({"type": "choice", "criteria": {"a": 1}}),
        ["body", "questions", "q", "choice", "criteria", "a"],
        "array",
    ),
    (one({"type": "score"}), ["body", "questions", "q", "score", "criteria"], "required"),
    (
        one({"type": "score", "criteria": {"0": "a"}}),
        ["body", "questions", "q", "score", "criteria"],
        "array",
    ),
    (one({"type": "score", "criteria": []}), ["body", "questions", "q", "score", "criteria"], "at least 1"),
    (
        one({"type": "score", "criteria": ["a", 1]}),
        ["body", "questions", "q", "score", "criteria", 1],
        "array",
    ),
]


@pytest.mark.parametrize(("body", "loc", "message"), SYSTEMONE_SHAPES)
def test_systemone_shapes(
    http: httpx.Client, server: ScriptedServer, body: Any, loc: list[Any], message: str
) -> None:
    reply = http.post("/v1/systemone", json=body)
    assert reply.status_code == 422
    detail = reply.json()["detail"]
    assert detail[0]["loc"] == loc
    assert message.lower() in detail[0]["msg"].lower()
    assert isinstance(detail[0]["type"], str)
    assert not server.requests


DECISIONS_SHAPES: list[tuple[Any, str | None, str]] = [
    ({"questions": [PREDICATE]}, "input", "required"),
    ({"input": None, "questions": [PREDICATE]}, "input", "string or an array of input items"),
    ({"input": {"a": 1}, "questions": [PREDICATE]}, "input", "string or an array of input items"),
    ({"input": "s", "model": 3, "questions": [PREDICATE]}, "model", "string"),
    ({"input": "s"}, "questions", "required"),
    ({"input": "s", "questions": []}, "questions", "at least 1"),
    ({"input": "s", "questions": {"q": PREDICATE}}, "questions", "array"),
    ({**asked(PREDICATE), "stream": True}, "stream", "extra"),
    ({**asked(PREDICATE), "prompt_cache_key": 3}, "prompt_cache_key", "string"),
    ({**asked(PREDICATE), "prompt_cache_options": {"ttl": "1h"}}, "prompt_cache_options.ttl", "30m"),
    ({**asked(PREDICATE), "prompt_cache_options": {"mode": "x"}}, "prompt_cache_options.mode", "implicit"),
    ({**asked(PREDICATE), "safety_identifier": True}, "safety_identifier", "string"),
    (asked("?"), "questions[0]", "predicate, choice or score"),
    (asked({"instructions": "?"}), "questions[0]", "predicate, choice or score"),
    (asked({**PREDICATE, "type": "noul"}), "questions[0]", "predicate, choice or score"),
    (asked({"type": "predicate"}), "questions[0].instructions", "required"),
    (asked({**PREDICATE, "instructions": None}), "questions[0].instructions", "string or an array"),
    (asked({**PREDICATE, "instructions": 5}), "questions[0].instructions", "string or an array"),
    (asked({**PREDICATE, "instructions": {"a": 1}}), "questions[0].instructions", "string or an array"),
    (asked({**PREDICATE, "instructions": [{"type": "x"}]}), "questions[0].instructions[0]", "input_text"),
    (
        asked({**PREDICATE, "instructions": [{"type": "input_text", "text": 3}]}),
        "questions[0].instructions[0].text",
        "string",
    ),
    (
        asked(
            {
                **PREDICATE,
                "instructions": [{"type": "input_text", "text": "", "prompt_cache_breakpoint": None}],
            }
        ),
        "questions[0].instructions[0].prompt_cache_breakpoint",
        "extra",
    ),
    (asked({**PREDICATE, "name": None}), "questions[0].name", "string"),
    (asked({**PREDICATE, "criteria": {}}), "questions[0].criteria", "extra"),
    (asked({"type": "choice", "instructions": "?"}), "questions[0].choices", "required"),
    (asked({"type": "choice", "instructions": "?", "choices": {}}), "questions[0].choices", "list"),
    (
        asked({"type": "choice", "instructions": "?", "choices": [{"value": "a"}, {"value": 3}]}),
        "questions[0].choices[1].value",
        "string or a boolean",
    ),
    (
        asked({"type": "choice", "instructions": "?", "choices": [{"value": "a", "description": None}]}),
        "questions[0].choices[0].description",
        "string",
    ),
    (
        asked({"type": "score", "instructions": "?", "levels": [{"description": "a"}]}),
        "questions[0].levels[0].label",
        "required",
    ),
    (about({"role": "robot", "content": "x"}), "input[0]", "function_call"),
    (about("x"), "input[0]", "function_call"),
    (about({"role": "user"}), "input[0].content", "required"),
    (about({"role": "user", "content": 3}), "input[0].content", "string or an array"),
    (about({"role": "user", "content": "x", "id": "1"}), "input[0].id", "extra"),
    (about({"role": "assistant", "content": "x", "phase": "x"}), "input[0].phase", "commentary"),
    (
        about({"role": "system", "content": [{"type": "input_json", "data": {}}]}),
        "input[0].content[0]",
        "input_text",
    ),
    (
        about({"role": "user", "content": [{"type": "input_json", "data": [1]}]}),
        "input[0].content[0].data",
        "array of objects",
    ),
    (about({"type": "function_call", "call_id": "c", "name": "f"}), "input[0].arguments", "required"),
    (
        about({"type": "function_call_output", "call_id": "c", "output": "", "status": "x"}),
        "input[0].status",
        "completed",
    ),
]


@pytest.mark.parametrize(("body", "param", "message"), DECISIONS_SHAPES)
def test_decisions_shapes(
    http: httpx.Client, server: ScriptedServer, body: Any, param: str | None, message: str
) -> None:
    reply = http.post("/v1/decisions", json=body)
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, None)
    assert message.lower() in error["message"].lower()
    assert list(reply.json()) == ["error"]
    assert not server.requests


DEEP = "[" * 1500 + "]" * 1500
BODIES: list[tuple[str, str | bytes]] = [
    ("empty", ""),
    ("blank", "  "),
    ("array", "[]"),
    ("string", '"x"'),
    ("number", "3"),
    ("null", "null"),
    ("html", "<html>"),
    ("cut off", '{"state": "s", "input": "s", "quest'),
    ("not UTF-8", b'{"state": "\xff"}'),
    ("byte order mark", b"\xef\xbb\xbf{}"),
]
IN_BODY: list[tuple[str, str]] = [
    ("trailing garbage", "@ x"),
    ("NaN", '{"x": NaN}'),
    ("infinity", '{"x": -Infinity}'),
    ("1e999", '{"x": 1e999}'),
    ("deep", DEEP),
    ("surrogate value", r'"\ud83d"'),
    ("surrogate key", r'{"\udc00": 1}'),
]


@pytest.mark.parametrize("route", ["/v1/systemone", "/v1/decisions"])
@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in BODIES])
def test_bodies_that_are_no_json_object(
    http: httpx.Client, server: ScriptedServer, route: str, body: str | bytes
) -> None:
    _refused(http.post(route, content=body), route)
    assert not server.requests


@pytest.mark.parametrize("route", ["/v1/systemone", "/v1/decisions"])
@pytest.mark.parametrize("state", [pytest.param(state, id=name) for name, state in IN_BODY])
def test_states_that_are_no_json(http: httpx.Client, server: ScriptedServer, route: str, state: str) -> None:
    questions = json.dumps({"q": NOUL} if route == "/v1/systemone" else [PREDICATE])
    field = "state" if route == "/v1/systemone" else "input"
    content, _, rest = state.partition("@")
    part = (content or '"s"') if route == "/v1/systemone" else _message(content or '"s"')
    _refused(http.post(route, content=f'{{"{field}": {part}, "questions": {questions}}}{rest}'), route)
    assert not server.requests


def _message(data: str) -> str:
    return f'[{{"role": "user", "content": [{{"type": "input_json", "data": {data}}}]}}]'


@pytest.mark.parametrize(
    "body",
    [
        r'{"state": "s", "questions": {"\ud800": {"type": "noul"}}}',
        r'{"state": "s", "questions": {"q": {"type": "choice", "criteria": {"\udc00": null}}}}',
        r'{"state": "s", "questions": {"q": {"type": "choice", "criteria": {"a": "\udc00"}}}}',
        r'{"state": "s", "questions": {"q": {"type": "noul", "\udc00": 1}}}',
        r'{"state": "s", "questions": {"q": {"type": "\udc00"}}}',
    ],
)
def test_lone_surrogates_name_their_place(http: httpx.Client, server: ScriptedServer, body: str) -> None:
    reply = http.post("/v1/systemone", content=body)
    _refused(reply, "/v1/systemone")
    assert reply.json()["detail"][0]["loc"][:2] == ["body", "questions"]
    assert not server.requests


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        (
            '{"model": "a", "model": "b", "state": "s", "questions": {"q": {"type": "noul"}}}',
            ["body", "model"],
        ),
        ('{"state": "s", "state": "t", "questions": {"q": {"type": "noul"}}}', ["body", "state"]),
        (
            '{"state": "s", "questions": {"q": {"type": "noul"}, "q": {"type": "noul"}}}',
            ["body", "questions", "q"],
        ),
        (
            '{"state": "s", "questions": {"q": {"type": "choice", "criteria": {"a": null, "a": "b"}}}}',
            ["body", "questions", "q", "criteria", "a"],
        ),
        (
            '{"state": "s", "questions": {"q": {"type": "noul", "instructions": {"k": 1, "k": 2}}}}',
            ["body", "questions", "q", "instructions", "k"],
        ),
    ],
)
def test_repeated_keys_outside_of_the_state(
    http: httpx.Client, server: ScriptedServer, body: str, loc: list[str]
) -> None:
    reply = http.post("/v1/systemone", content=body)
    assert reply.status_code == 422
    assert reply.json()["detail"][0]["loc"] == loc
    assert "twice" in reply.json()["detail"][0]["msg"]
    assert not server.requests


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ('{"input": "s", "input": "t", "questions": [{"type": "predicate", "instructions": "?"}]}', "input"),
        (
            '{"input": [{"role": "user", "role": "system", "content": "x"}], "questions": []}',
            "input[0].role",
        ),
        (
            '{"input": "s", "questions": [{"type": "predicate", "instructions": '
            '[{"type": "input_json", "data": {"a": 1, "a": 2}}]}]}',
            "questions[0].instructions[0].data.a",
        ),
    ],
)
def test_repeated_keys_on_decisions(
    http: httpx.Client, server: ScriptedServer, body: str, param: str
) -> None:
    reply = http.post("/v1/decisions", content=body)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == param
    assert not server.requests


def test_images_are_refused_by_name(http: httpx.Client, server: ScriptedServer) -> None:
    reply = http.post("/v1/systemone", json={**one(NOUL), "assets": {"p": {"type": "image"}}})
    assert reply.status_code == 400
    assert reply.json()["detail"]["error_type"] == "not_supported"
    assert "images are not served yet" in reply.json()["detail"]["message"].lower()
    multipart = http.post("/v1/systemone", files={"request": json.dumps(one(NOUL))})
    assert multipart.status_code == 400
    assert not server.requests
    assert http.post("/v1/systemone", json={**one(NOUL), "assets": None}).status_code == 200


@pytest.mark.parametrize("value", ["soon", "-1", "0", "nan", "inf", ""])
def test_nonsense_timeouts(http: httpx.Client, server: ScriptedServer, value: str) -> None:
    headers = {"x-request-timeout": value}
    reply = http.post("/v1/systemone", json=one(NOUL), headers=headers)
    assert reply.status_code == 422
    assert reply.json()["detail"][0]["loc"] == ["header", "x-request-timeout"]
    reply = http.post("/v1/decisions", json=asked(PREDICATE), headers=headers)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "x-request-timeout"
    assert not server.requests


def test_a_million_faults_are_not_listed(http: httpx.Client) -> None:
    reply = http.post("/v1/systemone", json={"state": "s", "questions": {str(i): 5 for i in range(1000)}})
    assert reply.status_code == 422
    assert len(reply.json()["detail"]) == 20


def _refused(reply: httpx.Response, route: str) -> None:
    assert reply.headers["content-type"] == "application/json"
    if route == "/v1/systemone":
        assert reply.status_code == 422
        (fault,) = reply.json()["detail"]
        assert fault["loc"][0] == "body"
        assert fault["msg"]
    else:
        assert reply.status_code == 400
        assert list(reply.json()) == ["error"]
        assert reply.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"state": "x", "questions": {"q": {"type": "noul", "instructions": "?"}}}, "/v1/systemone"),
        ({"input": "x", "questions": {"q": {"type": "noul", "instructions": "?"}}}, "Gemini"),
    ],
    ids=["system one", "gemini"],
)
def test_bodies_of_other_dialects_are_told_where_to_go(
    http: httpx.Client, server: ScriptedServer, body: dict[str, Any], words: str
) -> None:
    reply = http.post("/v1/decisions", json=body)
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert error["param"] == "questions"
    assert words in error["message"]
    assert not server.requests
