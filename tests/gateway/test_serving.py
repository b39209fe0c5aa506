"""What surrounds a decision: routes, ids, deadlines, limits, readiness, clients that leave."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from gateway.served import (
    MODEL,
    Loop,
    ScriptedServer,
    forever,
    free_port,
    grpc_served,
    http_served,
    status,
    uniform,
)
from grpc import StatusCode

from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import model_service_pb2 as model_pb

BODY = {"state": "s", "questions": {"q": {"type": "noul", "instructions": "?"}}}
DECISIONS_BODY = {"input": "s", "questions": [{"type": "predicate", "instructions": "?"}]}
ROUTES: list[tuple[str, dict[str, Any]]] = [("/v1/systemone", BODY), ("/v1/decisions", DECISIONS_BODY)]


@pytest.mark.parametrize("route", ["/v1/systemone", "/v1/decisions"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_other_methods(http: httpx.Client, server: ScriptedServer, route: str, method: str) -> None:
    reply = http.request(method, route)
    assert reply.status_code == 405
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["allow"] == "POST"
    assert "access-control-allow-origin" not in reply.headers
    if method != "HEAD":
        assert list(reply.json()) == (["detail"] if route == "/v1/systemone" else ["error"])


@pytest.mark.parametrize(
    ("method", "path", "shape"),
    [
        ("POST", "/", "detail"),
        ("GET", "/", "detail"),
        ("POST", "/v1/nope", "detail"),
        ("POST", "/v1/systemone/", "detail"),
        ("POST", "/typesafe/v1/systemone", "detail"),
        ("GET", "/docs/", "detail"),
        ("POST", "/v1/decisions/", "error"),
        ("POST", "/v1/decisions/x", "error"),
    ],
)
def test_other_routes(http: httpx.Client, method: str, path: str, shape: str) -> None:
    reply = http.request(method, path)
    assert reply.status_code == 404
    assert reply.headers["content-type"] == "application/json"
    assert list(reply.json()) == [shape]
    assert reply.headers["x-request-id"]


def test_a_double_slash_is_served(url: str, http: httpx.Client) -> None:
    for route, body in ROUTES:
        assert httpx.post(f"{url}/{route}", json=body, trust_env=False).status_code == 200


@pytest.mark.parametrize(("route", "body"), ROUTES)
def test_request_ids(http: httpx.Client, server: ScriptedServer, route: str, body: dict[str, Any]) -> None:
    reply = http.post(route, json=body, headers={"x-request-id": "mine-1"})
    assert reply.headers["x-request-id"] == reply.headers["x-typesafe-request-id"] == "mine-1"
    assert server.metadata[0]["x-request-id"] == "mine-1"
    made = [http.post(route, json=body).headers["x-request-id"] for _ in range(2)]
    assert len({"mine-1", *made}) == 3
    assert [metadata["x-request-id"] for metadata in server.metadata[1:]] == made
    for bad in (b"x" * 129, b"a b", "é".encode(), b""):
        reply = http.post(route, content=b"[", headers={b"x-request-id": bad})
        assert reply.status_code in (400, 422)
        assert reply.headers["x-request-id"].isalnum()
        assert len(reply.headers["x-request-id"]) == 32
    assert http.get(route).headers["x-request-id"]


def test_metadata_and_deadline(http: httpx.Client, server: ScriptedServer) -> None:
    http.post("/v1/systemone", json=BODY)
    assert 55 < server.deadlines[0] < 61
    assert "authorization" not in server.metadata[0]
    headers = {"x-request-timeout": "7.5", "authorization": "Bearer k", "x-dicast-tenant": "t"}
    http.post("/v1/systemone", json=BODY, headers=headers)
    assert 5 < server.deadlines[1] < 8
    assert server.metadata[1]["authorization"] == "Bearer k"
    assert server.metadata[1]["x-dicast-tenant"] == "t"
    http.post("/v1/decisions", json=DECISIONS_BODY, headers={"x-request-timeout": "1e9"})
    assert 590 < server.deadlines[2] < 601
    # No key has such a byte: a server without keys must not mind it.
    reply = http.post("/v1/systemone", json=BODY, headers={b"authorization": "Bearer é".encode()})
    assert reply.status_code == 200
    assert "authorization" not in server.metadata[3]


def test_a_deadline_that_passes(http: httpx.Client, server: ScriptedServer) -> None:
    server.script = forever
    reply = http.post("/v1/decisions", json=DECISIONS_BODY, headers={"x-request-timeout": "0.2"})
    assert reply.status_code == 504
    assert server.cancelled.wait(10)


@pytest.mark.parametrize(("route", "body"), ROUTES)
def test_a_client_that_leaves_cancels_the_call(
    url: str, server: ScriptedServer, route: str, body: dict[str, Any]
) -> None:
    server.script = forever
    content = json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0)) as client:
        head = f"POST {route} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(content)}\r\n\r\n"
        client.sendall(head.encode() + content)
        assert server.entered.wait(10)
        assert not server.cancelled.is_set()
    assert server.cancelled.wait(10)


def test_a_client_that_leaves_while_it_sends(url: str, http: httpx.Client, server: ScriptedServer) -> None:
    with socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0)) as client:
        client.sendall(b'POST /v1/systemone HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"state"')
    assert http.post("/v1/systemone", json=BODY).status_code == 200
    assert len(server.requests) == 1


def test_forty_requests_at_once(url: str, loop: Loop, server: ScriptedServer) -> None:
    everybody = asyncio.Event()

    async def together(request: service_pb.DecideRequest, context: Any) -> service_pb.DecideResponse:
        if len(server.requests) == 40:
            everybody.set()
        # Nobody is answered before all forty are in.
        await everybody.wait()
        return await uniform(request, context)

    async def ask() -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=40)
        async with httpx.AsyncClient(base_url=url, timeout=30, limits=limits, trust_env=False) as client:
            posts = [
                client.post("/v1/systemone", json={**BODY, "questions": {f"q{index}": {"type": "noul"}}})
                for index in range(40)
            ]
            return await asyncio.gather(*posts)

    server.script = together
    replies = asyncio.run(ask())
    assert [reply.status_code for reply in replies] == [200] * 40
    assert [list(reply.json()["answers"]) for reply in replies] == [[f"q{index}"] for index in range(40)]


def test_what_does_not_drain_in_time_is_told_so(loop: Loop, server: ScriptedServer) -> None:
    server.script = forever
    replies: list[httpx.Response] = []

    def ask(url: str) -> None:
        replies.append(httpx.post(f"{url}/v1/decisions", json=DECISIONS_BODY, timeout=30, trust_env=False))

    port = int(server.address.rpartition(":")[2])
    with loop.entered(http_served(port, drain_s=0)) as url:
        asking = threading.Thread(target=ask, args=[url])
        asking.start()
        assert server.entered.wait(10)
    asking.join(10)
    assert server.cancelled.wait(10)
    assert replies[0].status_code == 503
    assert replies[0].json()["error"]["code"] == "draining"
    assert replies[0].headers["retry-after"] == "5"


def test_odd_headers_are_no_crash(url: str) -> None:
    for header in (
        "host: [",
        "content-length: " + "9" * 5000,
        "content-length: -1",
        "content-type: ;;;\r\ncontent-length: 1\r\n\r\n[",
    ):
        with socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0)) as client:
            client.settimeout(10)
            first = "" if header.startswith("host") else "host: x\r\n"
            client.sendall(f"POST /v1/decisions HTTP/1.1\r\n{first}{header}\r\n\r\n".encode())
            assert client.recv(4096).startswith(b"HTTP/1.1 4"), header


@pytest.mark.parametrize(("route", "shape"), [("/v1/systemone", "detail"), ("/v1/decisions", "error")])
def test_bodies_that_are_too_large(
    http: httpx.Client, server: ScriptedServer, route: str, shape: str
) -> None:
    large = b" " * (32 * 1024 * 1024)

    def chunks() -> Iterator[bytes]:
        for start in range(0, len(large), 1024 * 1024):
            yield large[start : start + 1024 * 1024]

    for content in (large, chunks()):
        reply = http.post(route, content=content)
        assert reply.status_code == 413
        assert reply.headers["content-type"] == "application/json"
        assert list(reply.json()) == [shape]
        assert "4128768" in reply.text
    # The connection is still good.
    assert http.get("/livez").status_code == 200
    assert not server.requests


def test_a_refused_upload_is_read_to_its_end(url: str) -> None:
    # Closed over unread bytes the connection would be reset, and who still sends would miss the 413.
    size = 32 * 1024 * 1024
    with socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0)) as client:
        client.settimeout(10)
        client.sendall(f"POST /v1/decisions HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n\r\n".encode())
        client.sendall(b" " * size)
        client.sendall(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
        received = b""
        while not received.endswith(b'{"status": "alive"}'):
            received += (more := client.recv(4096))
            assert more, received
        assert received.startswith(b"HTTP/1.1 413")


def test_a_too_large_body_is_refused_before_it_is_sent(url: str) -> None:
    with socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0)) as client:
        client.settimeout(10)
        client.sendall(b"POST /v1/systemone HTTP/1.1\r\nhost: x\r\ncontent-length: 999999999\r\n\r\n")
        assert client.recv(4096).startswith(b"HTTP/1.1 413")


def test_the_largest_body_fits(http: httpx.Client, server: ScriptedServer) -> None:
    body = json.dumps(BODY).encode()
    padding = 4 * 1024 * 1024 - 64 * 1024 - len(body)
    large = json.dumps({**BODY, "state": "s" * (1 + padding)}).encode()
    assert http.post("/v1/systemone", content=large).status_code == 200
    assert http.post("/v1/systemone", content=large + b" ").status_code == 413
    assert len(server.requests[0].state.text) == 1 + padding


def test_models(http: httpx.Client, server: ScriptedServer) -> None:
    listed = http.get("/v1/models").json()
    assert listed["object"] == "list"
    assert listed["models"][0] == {
        "name": MODEL.id,
        "description": "a small model",
        "release_date": "2026-09-21",
    }
    assert listed["data"][1] == {
        "id": "jev-latest",
        "object": "model",
        "created": 1_790_000_000,
        "owned_by": "dicast",
    }
    assert len(listed["models"]) == len(listed["data"]) == 3
    starting = model_pb.Model(id="slow", status=model_pb.Model.STATUS_STARTING)
    server.models = [starting]
    assert http.get("/v1/models").json() == {"models": [], "object": "list", "data": []}


def test_alive_and_ready(http: httpx.Client, server: ScriptedServer, loop: Loop) -> None:
    def ready() -> tuple[int, str, str | None]:
        assert http.get("/livez").status_code == http.get("/healthz").status_code == 200
        reply = http.get("/readyz")
        assert (reply.headers.get("retry-after") == "5") == (reply.status_code == 503)
        return reply.status_code, reply.json()["status"], reply.json()["reason"]

    assert http.get("/readyz").json() == {"status": "ready", "model": MODEL.id, "reason": ""}

    server.models = [model_pb.Model(id="m", status=model_pb.Model.STATUS_STARTING)]
    assert ready() == (503, "starting", "The model is loading.")
    server.models = [
        model_pb.Model(id="m", status=model_pb.Model.STATUS_REFUSED, status_message="option mass 0.1")
    ]
    assert ready() == (503, "refused", "option mass 0.1")

    server.models = [MODEL]
    loop.run(server.set_serving(False))
    try:
        assert ready()[:2] == (503, "unreachable")
    finally:
        loop.run(server.set_serving(True))

    server.model_failure = status(StatusCode.UNAVAILABLE, "loading weights", "STARTING")
    assert ready() == (503, "starting", "loading weights")
    server.model_failure = status(StatusCode.UNAVAILABLE, "self-check failed", "MODEL_UNAVAILABLE")
    assert ready() == (503, "refused", "self-check failed")
    # A probe has no key; the health service needs none.
    server.model_failure = status(StatusCode.UNAUTHENTICATED, "no key", "UNAUTHENTICATED")
    assert ready() == (200, "ready", "")


def test_the_gateway_starts_without_its_server(loop: Loop) -> None:
    port = free_port()
    late = ScriptedServer()
    with (
        loop.entered(http_served(port)) as url,
        httpx.Client(base_url=url, timeout=30, trust_env=False) as http,
    ):
        assert http.get("/livez").status_code == 200
        reply = http.get("/readyz")
        assert (reply.status_code, reply.json()["status"]) == (503, "unreachable")
        for route, body in ROUTES:
            reply = http.post(route, json=body)
            assert reply.status_code == 503
            assert reply.headers["retry-after"] == "5"
            assert "cannot be reached" in reply.text
            assert str(port) not in reply.text
        reply = http.get("/v1/models")
        assert reply.status_code == 503
        assert reply.json()["error"]["code"] == "unreachable"

        with loop.entered(grpc_served(late, port)):
            last = time.monotonic() + 20
            while http.get("/readyz").status_code != 200 and time.monotonic() < last:
                time.sleep(0.05)
            assert http.post("/v1/systemone", json=BODY).status_code == 200


@pytest.mark.parametrize("name", ["x-api-key", "api-key", "API-Key"])
def test_a_key_may_stand_where_other_clients_put_it(
    http: httpx.Client, server: ScriptedServer, name: str
) -> None:
    assert http.post("/v1/systemone", json=BODY, headers={name: "k"}).status_code == 200
    assert server.metadata[0]["authorization"] == "Bearer k"
    headers = {name: "k", "authorization": "Bearer own"}
    assert http.post("/v1/systemone", json=BODY, headers=headers).status_code == 200
    assert server.metadata[1]["authorization"] == "Bearer own"
