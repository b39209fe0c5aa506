"""Callers who come too late, give up in the queue, or are killed: their work stops, other work goes on."""

import asyncio
import struct
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import grpc
import pytest
from tiny_server import PATIENCE_S, Running, idle, predicate, refusal, request, serving

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import error_pb2
from dicast_server.service.calls import Deadlines
from dicast_server.service.limits import Limits

LONG = "It is long. " * 100
CLIENT = """
import signal, sys
import grpc
from dicast.v1 import decision_service_pb2 as pb
from dicast.v1.decision_service_pb2_grpc import DecisionServiceStub

address, method, *requests = sys.argv[1:]
stub = DecisionServiceStub(grpc.insecure_channel(address))
if method == "Decide":
    stub.Decide(pb.DecideRequest.FromString(bytes.fromhex(requests[0])))

def items():
    for n, each in enumerate(requests):
        yield pb.StreamDecideRequest(id=str(n), request=pb.DecideRequest.FromString(bytes.fromhex(each)))
    signal.pause()

for event in stub.StreamDecide(items()):
    pass
"""


async def load_is(running: Running, requests: int) -> None:
    """Wait until so many requests wait or run."""
    async with asyncio.timeout(PATIENCE_S):
        while running.host.engine.load != requests:
            await asyncio.sleep(0.001)


async def tasks_are(most: int) -> None:
    """Wait until no more tasks are left than so many."""
    async with asyncio.timeout(PATIENCE_S):
        while len(asyncio.all_tasks()) > most:
            await asyncio.sleep(0.001)


async def next_event(stream: Any) -> service_pb.StreamDecideResponse:
    event = await stream.read()
    assert isinstance(event, service_pb.StreamDecideResponse)
    return event


async def test_a_deadline_of_nothing_reaches_no_forward() -> None:
    async with serving(deadlines=Deadlines(default_s=0.0)) as running:
        for call in (
            running.decisions.Decide(request()),
            running.decisions.Prewarm(service_pb.PrewarmRequest(state=pb.State(text="s"))),
        ):
            code, info, _ = await refusal(call)
            assert (code, info.reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE")
        stream = running.decisions.StreamDecide()
        await stream.write(service_pb.StreamDecideRequest(id="a", request=request()))
        await stream.done_writing()
        (event,) = [event async for event in stream]
        assert event.error.reason == error_pb2.ERROR_REASON_DEADLINE
        await idle(running)
        assert running.gate.count == 0


def frame(kind: int, flags: int, payload: bytes, stream: int = 1) -> bytes:
    """A frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def header_block(fields: Sequence[tuple[str, str]]) -> bytes:
    """A block of HPACK without indices."""
    strings = (bytes([len(text)]) + text.encode() for field in fields for text in field)
    return b"".join(b"\0" + name + value for name, value in zip(strings, strings, strict=True))


async def test_a_deadline_that_has_passed_when_the_call_arrives_reaches_no_forward() -> None:
    # gRPC's own clients do not even send such a call.
    async with serving() as running:
        fields = [(":method", "POST"), (":scheme", "http"), (":path", "/dicast.v1.DecisionService/Decide")]
        fields += [(":authority", "x"), ("content-type", "application/grpc"), ("te", "trailers")]
        message = request().SerializeToString()
        reader, writer = await asyncio.open_connection(*running.address.split(":"))
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, b"", stream=0))
        writer.write(frame(1, 4, header_block([*fields, ("grpc-timeout", "1n")])))
        writer.write(frame(0, 1, struct.pack(">BI", 0, len(message)) + message))
        trailers, flags = b"", 0
        async with asyncio.timeout(PATIENCE_S):
            while not (trailers and flags & 1):
                size, kind, flags = struct.unpack(">IBBI", b"\0" + await reader.readexactly(9))[:3]
                payload = await reader.readexactly(size)
                trailers = payload if kind == 1 else b""
        assert b"grpc-status\x014" in trailers
        writer.close()
        await writer.wait_closed()
        await idle(running)
        assert running.gate.count == 0


async def test_calls_that_are_given_up_in_the_queue_run_no_forward() -> None:
    async with serving() as running:
        await running.decisions.Decide(request(predicate(), state="alone"))
        alone = running.gate.count
        running.gate.hold()
        first = asyncio.ensure_future(running.decisions.Decide(request(predicate(), state="first")))
        await running.gate.reached()
        tasks = len(asyncio.all_tasks())
        calls = [running.decisions.Decide(request(predicate(), state=str(n))) for n in range(12)]
        await load_is(running, 13)
        for call in calls:
            call.cancel()
        await tasks_are(tasks)
        running.gate.release()
        await first
        await idle(running)
        assert running.gate.count == 2 * alone


@pytest.mark.parametrize(("method", "requests"), [("Decide", 1), ("StreamDecide", 3)])
async def test_a_client_that_is_killed_stops_its_work(method: str, requests: int) -> None:
    async with serving(limits=Limits(in_flight=requests)) as running:
        tasks = len(asyncio.all_tasks())
        running.gate.hold()
        messages = [request(state=f"{n} {LONG}").SerializeToString().hex() for n in range(requests)]
        with subprocess.Popen([sys.executable, "-c", CLIENT, running.address, method, *messages]) as process:
            await running.gate.reached()
            await load_is(running, requests)
            process.kill()
        # All places are free again while the engine still stands in the forward.
        async with asyncio.timeout(PATIENCE_S):
            await running.host.idle()
        await tasks_are(tasks)
        running.gate.release()
        await idle(running)
        assert running.gate.count == 1
        assert (await running.decisions.Decide(request())).answers


async def test_a_stream_hears_of_each_request_that_finds_no_place() -> None:
    async with serving(limits=Limits(in_flight=1)) as running:
        running.gate.hold()
        stream = running.decisions.StreamDecide()
        for id_ in ("first", "second"):
            await stream.write(service_pb.StreamDecideRequest(id=id_, request=request(predicate())))
        event = await next_event(stream)
        assert (event.id, event.error.code) == ("second", grpc.StatusCode.RESOURCE_EXHAUSTED.value[0])
        assert event.error.reason == error_pb2.ERROR_REASON_OVERLOADED
        assert event.error.retry_delay.ToSeconds() == 1
        running.gate.release()
        assert [(await next_event(stream)).id for _ in range(2)] == ["first", "first"]
        await stream.done_writing()
        assert await stream.read() is grpc.aio.EOF
