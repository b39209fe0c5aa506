"""What the contract or other servers have and this version does not: refused by name, with its path."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from gateway.served import ScriptedServer

NOUL = {"type": "noul", "instructions": "?"}
PREDICATE = {"type": "predicate", "instructions": "?"}
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}


def one(**fields: Any) -> dict[str, Any]:
    return {"state": "s", "questions": {"late": {**NOUL, **fields}}}


def asked(**fields: Any) -> dict[str, Any]:
    return {"input": "s", "questions": [PREDICATE, {**PREDICATE, **fields}]}


def about(*items: Any) -> dict[str, Any]:
    return {"input": list(items), "questions": [PREDICATE]}


def refused_by_systemone(reply: httpx.Response) -> str:
    assert reply.status_code == 400, reply.text
    detail = reply.json()["detail"]
    assert detail["error_type"] == "not_supported"
    return str(detail["message"])


def refused_by_decisions(reply: httpx.Response) -> tuple[str, str]:
    assert reply.status_code == 400, reply.text
    error = reply.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "not_supported")
    return error["param"], error["message"]


def test_ask_names_its_field_and_what_to_do(http: httpx.Client, server: ScriptedServer) -> None:
    """A server that has no such field ignored it, so that all questions were answered and paid for."""
    message = "ask: asking some of the questions is not served by this version: send those alone"
    assert refused_by_systemone(http.post("/v1/systemone", json={**one(), "ask": ["late"]})) == message
    reply = http.post("/v1/decisions", json={**asked(), "ask": [0]})
    assert refused_by_decisions(reply) == ("ask", message)
    assert not server.requests


@pytest.mark.parametrize("condition", [{"other": ["yes"]}, {}, [], "yes", False])
def test_a_condition_names_its_question(
    http: httpx.Client, server: ScriptedServer, condition: object
) -> None:
    """Whoever sends a condition must not get an answer that was given regardless of it."""
    words = "conditions are not served by this version: ask the question always"
    message = refused_by_systemone(http.post("/v1/systemone", json=one(ask_if=condition)))
    assert message == f"questions.late.noul.ask_if: {words}"
    reply = http.post("/v1/decisions", json=asked(ask_if=condition))
    assert refused_by_decisions(reply) == (
        "questions[1].ask_if",
        f"questions[1].ask_if: {words}",
    )
    assert not server.requests


@pytest.mark.parametrize(
    "question",
    [
        {"type": "choice", "criteria": {"a": None, "b": None}},
        {"type": "score", "criteria": ["a", "b"]},
    ],
    ids=["choice", "score"],
)
def test_a_condition_on_any_type(http: httpx.Client, question: dict[str, Any]) -> None:
    body = {"state": "s", "questions": {"q": {**question, "ask_if": {"p": ["yes"]}}}}
    assert f"questions.q.{question['type']}.ask_if" in refused_by_systemone(
        http.post("/v1/systemone", json=body)
    )


def test_null_says_nothing(http: httpx.Client) -> None:
    for route, body in (("/v1/systemone", one(ask_if=None)), ("/v1/decisions", asked(ask_if=None))):
        assert http.post(route, json={**body, "ask": None}).status_code == 200
    assert http.post("/v1/systemone", json={**one(), "assets": None}).status_code == 200


def test_a_mistake_next_to_it_is_told_as_well(http: httpx.Client, server: ScriptedServer) -> None:
    body = {**one(ask_if={"p": ["yes"]}), "model": 3}
    reply = http.post("/v1/systemone", json=body)
    assert reply.status_code == 422
    assert [fault["loc"][1:] for fault in reply.json()["detail"]] == [
        ["model"],
        ["questions", "late", "noul", "ask_if"],
    ]
    assert reply.json()["detail"][1]["type"] == "not_supported"
    reply = http.post("/v1/decisions", json={**asked(ask_if={"p": ["yes"]}), "model": 3})
    assert reply.json()["error"]["code"] is None
    assert "model: " in reply.json()["error"]["message"]
    assert "questions[1].ask_if: " in reply.json()["error"]["message"]
    assert not server.requests


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (about({"role": "user", "content": [IMAGE]}), "input[0].content[0]"),
        (
            about(
                {"role": "user", "content": "x"},
                {"role": "user", "content": [{"type": "input_text", "text": "t"}, IMAGE]},
            ),
            "input[1].content[1]",
        ),
        (about({"role": "system", "content": [IMAGE]}), "input[0].content[0]"),
        (
            about(CALL, {"type": "function_call_output", "call_id": "c", "output": [IMAGE]}),
            "input[1].output[0]",
        ),
        (asked(instructions=[{"type": "input_text", "text": "t"}, IMAGE]), "questions[1].instructions[1]"),
        (about({"role": "user", "content": [{"type": "input_image", "file_id": 3}]}), "input[0].content[0]"),
    ],
)
def test_an_image_is_refused_where_it_stands(
    http: httpx.Client, server: ScriptedServer, body: dict[str, Any], param: str
) -> None:
    """A text model behind a multimodal dialect dropped the picture and answered about the rest."""
    reply = http.post("/v1/decisions", json=body)
    message = f"{param}: images are not served yet: send text or JSON"
    assert refused_by_decisions(reply) == (param, message)
    assert not server.requests


@pytest.mark.parametrize("assets", [{"<image:1>": {"type": "image", "part": "asset-0"}}, {}, [], "x"])
def test_assets_are_refused_by_name(http: httpx.Client, server: ScriptedServer, assets: Any) -> None:
    reply = http.post("/v1/systemone", json={**one(), "assets": assets})
    assert refused_by_systemone(reply) == (
        "assets: images are not served yet: send the request without assets"
    )
    assert not server.requests


@pytest.mark.parametrize("route", ["/v1/systemone", "/v1/decisions"])
def test_a_form_with_pictures_is_refused(http: httpx.Client, server: ScriptedServer, route: str) -> None:
    reply = http.post(route, files={"request": "{}", "asset-0": b"\x89PNG"})
    assert reply.status_code == 400
    assert "Images are not served yet: send the request as application/json." in reply.text
    assert not server.requests


def test_a_question_about_a_place_in_a_picture_is_an_unknown_type(http: httpx.Client) -> None:
    reply = http.post("/v1/systemone", json={"state": "s", "questions": {"q": {"type": "box"}}})
    assert reply.status_code == 422
    assert "'noul', 'choice', 'score'" in reply.json()["detail"][0]["msg"]
