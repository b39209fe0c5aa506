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


def test_null_says_nothing(http: httpx.Client) -> None:
    assert http.post("/v1/systemone", json={**one(), "assets": None}).status_code == 200


def test_a_mistake_next_to_it_is_told_as_well(http: httpx.Client, server: ScriptedServer) -> None:
    reply = http.post("/v1/systemone", json={**one(), "model": 3, "assets": {}})
    assert reply.status_code == 422
    assert [fault["loc"][1:] for fault in reply.json()["detail"]] == [["model"], ["assets"]]
    assert reply.json()["detail"][1]["type"] == "not_supported"
    body = {**about({"role": "user", "content": [IMAGE]}), "model": 3}
    reply = http.post("/v1/decisions", json=body)
    assert reply.json()["error"]["code"] is None
    assert "model: " in reply.json()["error"]["message"]
    assert "input[0].content[0]: " in reply.json()["error"]["message"]
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
