"""How streams of events end, wait and are left: deadlines, departures, drains, silence, slow readers."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import httpx
import pytest
from gateway.eventstream import (
    DECISIONS,
    EVENTS,
    StreamEvent,
    both_routes,
    read,
    told,
)
from gateway.served import Loop, ScriptedServer, forever, http_served, uniform
from gateway.test_server_errors import SYSTEMONE
from starlette.types import Message

from dicast import jsontext
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast_gateway.decisions import Decisions
from dicast_gateway.dialect import Asked, Dialect
from dicast_gateway.engine import Engine, connect
from dicast_gateway.errors import GatewayError, stopping
from dicast_gateway.events import EventReply, event_stream
from dicast_gateway.systemone import SystemOne


@both_routes
def test_the_deadline_is_that_of_the_whole_stream(
    http: httpx.Client, server: ScriptedServer, route: str, body: dict[str, Any]
) -> None:
    server.script = forever
    headers = {**EVENTS, "x-request-timeout": "0.2"}
    assert http.post(route, json=body, headers=headers).status_code == 504
    assert server.cancelled.wait(10)

    async def stall(request: service_pb.DecideRequest, context: Any) -> AsyncIterator[StreamEvent]:
        yield (await uniform(request, context)).answers[0]
        await asyncio.Event().wait()

    server.cancelled.clear()
    server.stream_script = stall
    found = told(http.post(route, json=body, headers=headers | {"x-request-timeout": "0.5"}))
    assert found.names == ["answer", "error"]
    assert found.all("error")[0]["status"] == 504
    assert server.cancelled.wait(10)


@both_routes
@pytest.mark.parametrize("answers", [0, 1])
def test_a_client_that_leaves_cancels_the_call(
    url: str, server: ScriptedServer, route: str, body: dict[str, Any], answers: int
) -> None:
    async def stall(request: service_pb.DecideRequest, context: Any) -> AsyncIterator[StreamEvent]:
        for answer in (await uniform(request, context)).answers[:answers]:
            yield answer
        await asyncio.Event().wait()

    server.stream_script = stall
    content = json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0)) as client:
        client.settimeout(10)
        head = f"POST {route} HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n"
        head += f"content-length: {len(content)}\r\n\r\n"
        client.sendall(head.encode() + content)
        assert server.entered.wait(10)
        received = b""
        while answers and b"event: answer" not in received:
            received += (more := client.recv(4096))
            assert more, received
        assert not server.cancelled.is_set()
    assert server.cancelled.wait(10)


def test_a_client_that_leaves_a_full_line(url: str, server: ScriptedServer) -> None:
    # Far more than the buffers on the way hold: the gateway waits for its client, not for its server.
    ended = threading.Event()
    choice = pb.ChoiceAnswer(value=pb.OptionValue(string_value="x" * 512 * 1024))

    async def endless(request: service_pb.DecideRequest, context: Any) -> AsyncIterator[StreamEvent]:
        context.add_done_callback(lambda _: ended.set())
        while True:
            yield pb.Answer(index=1, choice=choice)

    server.stream_script = endless
    with (
        httpx.Client(timeout=30, trust_env=False) as client,
        client.stream("POST", f"{url}/v1/systemone", json=SYSTEMONE, headers=EVENTS) as reply,
    ):
        # Kept, since the end of the iterator closes the connection.
        pieces = reply.iter_bytes()
        assert next(pieces).startswith(b"event: answer")
        assert not ended.is_set()
    assert ended.wait(10)


def test_what_does_not_drain_in_time_is_told_so(loop: Loop, server: ScriptedServer) -> None:
    answered = threading.Event()

    async def stall(request: service_pb.DecideRequest, context: Any) -> AsyncIterator[StreamEvent]:
        yield (await uniform(request, context)).answers[0]
        await asyncio.Event().wait()

    def ask(url: str) -> None:
        text = ""
        with (
            httpx.Client(timeout=30, trust_env=False) as client,
            client.stream("POST", f"{url}/v1/decisions", json=DECISIONS, headers=EVENTS) as reply,
        ):
            for chunk in reply.iter_text():
                text += chunk
                answered.set()
        texts.append(text)

    texts: list[str] = []
    server.stream_script = stall
    with loop.entered(http_served(int(server.address.rpartition(":")[2]), drain_s=0)) as url:
        asking = threading.Thread(target=ask, args=[url])
        asking.start()
        assert answered.wait(10)
    asking.join(10)
    assert server.cancelled.wait(10)
    found = read(texts[0])
    assert found.names == ["answer", "error"]
    assert found.all("error")[0]["error"]["code"] == "draining"


class Reader:
    """A client at the end of the ASGI application: takes a message, then says whether to go on."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        self.go_on = asyncio.Semaphore(0)
        self.left = asyncio.Event()

    async def send(self, message: Message) -> None:
        await self.messages.put(message)
        await self.go_on.acquire()

    async def depart(self) -> None:
        await self.left.wait()

    async def text(self) -> bytes:
        """The next piece of the body, once the one before it is taken."""
        self.go_on.release()
        return bytes((await self.messages.get())["body"])


async def reply_to(reader: Reader, address: str, dialect: Dialect, keep_alive_s: float) -> None:
    body = SYSTEMONE if isinstance(dialect, SystemOne) else DECISIONS
    tree = jsontext.parse(json.dumps(body))
    assert isinstance(tree, jsontext.Object)
    async with connect(address) as engine:
        events = event_stream(
            dialect,
            dialect.read(tree),
            engine,
            timeout_s=30,
            metadata=[("x-request-id", "r")],
            left=reader.depart,
            keep_alive_s=keep_alive_s,
        )

        async def receive() -> Message:
            raise AssertionError

        await EventReply(events, dialect)({"type": "http"}, receive, reader.send)


@pytest.mark.parametrize("dialect", [SystemOne(), Decisions()])
def test_silence_is_filled_with_comments(loop: Loop, server: ScriptedServer, dialect: Dialect) -> None:
    heard = asyncio.Event()

    async def pausing(request: service_pb.DecideRequest, context: Any) -> AsyncIterator[StreamEvent]:
        response = await uniform(request, context)
        yield response.answers[0]
        await heard.wait()
        for answer in response.answers[1:]:
            yield answer
        yield response.summary

    async def listen() -> bytes:
        reader = Reader()
        replying = asyncio.ensure_future(reply_to(reader, server.address, dialect, 0.01))
        start = await reader.messages.get()
        assert start["status"] == 200
        text = await reader.text()
        assert text.startswith(b"event: answer")
        for _ in range(3):
            text += await reader.text()
        heard.set()
        while more := await reader.text():
            text += more
        reader.go_on.release()
        await replying
        return text

    server.stream_script = pausing
    found = read(loop.run(listen()).decode())
    assert found.comments >= 3
    assert found.names == ["answer", "answer", "answer", "done"]


def test_silence_before_the_first_answer_starts_nothing() -> None:
    class Failing(Engine):
        def __init__(self) -> None:
            pass

        async def stream(
            self, request: Any, *given: Any
        ) -> AsyncGenerator[pb.Answer | pb.DecideSummary | None]:
            given[2].close()
            yield None
            raise stopping()

    async def first() -> bytes:
        reader = Reader()
        events = event_stream(
            SystemOne(),
            Asked(service_pb.DecideRequest()),
            Failing(),
            timeout_s=30,
            metadata=[("x-request-id", "r")],
            left=reader.depart,
        )
        return await anext(events)

    with pytest.raises(GatewayError, match="shutting down"):
        asyncio.run(first())


def test_a_slow_reader_holds_up_the_server(loop: Loop, server: ScriptedServer) -> None:
    # 400 answers of half a megabyte fit into no buffer on the way.
    sent = 0
    label = "x" * 512 * 1024

    async def many(request: service_pb.DecideRequest, context: Any) -> AsyncIterator[StreamEvent]:
        nonlocal sent
        choice = pb.ChoiceAnswer(value=pb.OptionValue(string_value=label))
        for _ in range(400):
            sent += 1
            yield pb.Answer(index=1, choice=choice)

    async def listen() -> None:
        reader = Reader()
        replying = asyncio.ensure_future(reply_to(reader, server.address, SystemOne(), 30))
        await reader.messages.get()
        for _ in range(10):
            assert len(await reader.text()) > len(label)
            # Nothing is written before what was written is taken.
            assert reader.messages.empty()
        reader.left.set()
        reader.go_on.release()
        # The departure is seen at the next message; what is sent then goes nowhere.
        while not replying.done():
            reader.go_on.release()
            await asyncio.wait({replying}, timeout=0.01)
        await replying

    server.stream_script = many
    loop.run(listen())
    assert sent < 100
