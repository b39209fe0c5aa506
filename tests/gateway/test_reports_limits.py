"""What went wrong at the limits elsewhere: huge bodies, wrong keys, open doors, the end of the context."""

from __future__ import annotations

import socket
import tracemalloc
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from gateway.served import Loop, ScriptedServer, status
from gateway.tiny import Tiny, tiny_served
from grpc import StatusCode
from tiny_server import CONTEXT

from dicast import Predicate
from dicast_gateway.config import Settings
from dicast_server.service.keys import Keys, digest

MIB = 1024 * 1024
KEY = "the-key"
SYSTEMONE: dict[str, Any] = {"state": "s", "questions": {"q": {"type": "noul", "instructions": "Is it?"}}}
DECISIONS: dict[str, Any] = {"input": "s", "questions": [{"type": "predicate", "instructions": "Is it?"}]}
PREWARM: dict[str, Any] = {"state": "s"}
BODIES = {"/v1/systemone": SYSTEMONE, "/v1/decisions": DECISIONS, "/v1/prewarm": PREWARM}
ROUTES = pytest.mark.parametrize("route", list(BODIES))


@pytest.fixture(scope="module")
def locked(loop: Loop) -> Iterator[Tiny]:
    """An engine that answers one key alone."""
    with tiny_served(loop, keys=Keys({digest(KEY): "ann"})) as served:
        yield served


def open_request(http: httpx.Client, route: str, *headers: str) -> bytes:
    """The reply to a request whose body never comes."""
    lines = [f"POST {route} HTTP/1.1", "host: x", *headers, "", ""]
    with socket.create_connection(("127.0.0.1", http.base_url.port or 0)) as client:
        client.settimeout(30)
        client.sendall("\r\n".join(lines).encode())
        received = b""
        while not received.endswith(b"}"):
            received += (more := client.recv(4096))
            assert more, received
        return received


LARGE = ["content-length: 67108864", "content-length: 70000", "transfer-encoding: chunked"]
CODED = ["content-encoding: gzip\r\ncontent-length: 100"]


@ROUTES
@pytest.mark.parametrize("size", LARGE + CODED)
@pytest.mark.parametrize(
    "key", ["authorization: Bearer wrong", "authorization: Bearer ", "x-api-key: wrong", "x: y"]
)
def test_a_wrong_key_is_refused_before_a_large_body_is_read(
    locked: Tiny, route: str, size: str, key: str
) -> None:
    """Sixty-four megabytes were taken and parsed before anyone asked who sent them."""
    reply = open_request(locked.http, route, size, key)
    assert reply.startswith(b"HTTP/1.1 401"), reply
    assert b"content-type: application/json" in reply
    assert b"API key" in reply


@ROUTES
def test_a_small_body_needs_a_key_too(locked: Tiny, route: str) -> None:
    for headers in ({}, {"authorization": "Bearer"}, {"authorization": KEY}, {"x-api-key": "wrong"}):
        reply = locked.http.post(route, json=BODIES[route], headers=headers)
        assert reply.status_code == 401
        assert "API key" in reply.text
    assert locked.forwards.count == 0


@ROUTES
def test_with_the_key_a_large_body_is_read(loop: Loop, locked: Tiny, route: str) -> None:
    headers = {"authorization": f"Bearer {KEY}"}
    large = {**BODIES[route], "unknown": "x" * 100_000}
    reply = locked.http.post(route, json=large, headers=headers)
    # The other two routes know all of their fields.
    assert reply.status_code == {"/v1/systemone": 200, "/v1/decisions": 400, "/v1/prewarm": 422}[route]
    assert open_request(locked.http, route, LARGE[0], *_lines(headers)).startswith(b"HTTP/1.1 413")


def _lines(headers: dict[str, str]) -> list[str]:
    return [f"{name}: {value}" for name, value in headers.items()]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (StatusCode.UNAVAILABLE, "STARTING"),
        (StatusCode.UNIMPLEMENTED, None),
        (StatusCode.NOT_FOUND, "MODEL_NOT_FOUND"),
    ],
)
def test_only_a_key_keeps_a_large_body_out(
    http: httpx.Client, server: ScriptedServer, code: StatusCode, reason: str | None
) -> None:
    server.model_failure = status(code, "not now", reason)
    reply = http.post("/v1/systemone", json={**SYSTEMONE, "state": "x" * 100_000})
    assert reply.status_code == 200
    assert server.metadata[-1]["x-request-id"] == reply.headers["x-request-id"]


@ROUTES
def test_a_body_that_says_it_is_huge_is_not_taken(
    http: httpx.Client, server: ScriptedServer, route: str
) -> None:
    """A framework's parser took whatever was sent into memory, and then looked at it."""
    piece = b" " * (64 * 1024)

    def pieces() -> Iterator[bytes]:
        for _ in range(64 * MIB // len(piece)):
            yield piece

    tracemalloc.start()
    try:
        reply = http.post(route, content=pieces(), headers={"content-length": str(64 * MIB)})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reply.status_code == 413
    assert peak < 4 * MIB
    assert not server.requests


@pytest.mark.parametrize("route", [*BODIES, "/v1/models", "/readyz"])
def test_no_page_of_another_origin_may_ask(http: httpx.Client, route: str) -> None:
    """A local server allowed all origins, so that any page in the browser could spend its time."""
    headers = {
        "origin": "http://page.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type",
    }
    for method in ("OPTIONS", "GET", "POST"):
        reply = http.request(method, route, headers=headers)
        assert not [name for name in reply.headers if name.startswith("access-control")]
    assert http.options(route, headers=headers).status_code == 405


def test_nobody_else_is_listened_to_by_default() -> None:
    assert Settings().http_host == "127.0.0.1"


def test_a_prompt_of_many_forwards_is_answered(tiny: Tiny) -> None:
    """A prompt that was larger than one batch ended the process."""
    model = tiny.grpc.model()
    assert model.profile.forward_tokens < 900
    options = {f"option {place}": "d" * 30 for place in range(8)}
    question = {"type": "choice", "instructions": "w" * 900, "criteria": options}
    answer = tiny.answers("/v1/systemone", {"state": "s", "questions": {"q": question}})["q"]
    assert list(answer["probabilities"]) == list(options)


def test_a_prompt_of_the_whole_context_is_answered_and_one_token_more_is_not(tiny: Tiny) -> None:
    """A prompt beyond the context crashed the server, or was cut without a word."""
    empty = tiny.grpc.decide("", [Predicate("Is it?")]).usage.input_tokens
    # The tokenizer has one token a byte.
    exact = "x" * (CONTEXT - empty)
    for route, field in (("/v1/systemone", "state"), ("/v1/decisions", "input")):
        body = BODIES[route]
        reply = tiny.http.post(route, json={**body, field: exact})
        assert reply.status_code == 200
        assert reply.json()["usage"]["input_tokens"] == CONTEXT
        count = tiny.forwards.count
        reply = tiny.http.post(route, json={**body, field: exact + "x"})
        assert reply.status_code == 400
        assert f"{CONTEXT + 1}" in reply.text and f"{CONTEXT}" in reply.text
        assert tiny.forwards.count == count
