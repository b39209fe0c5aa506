"""What a hostile or careless caller does must cost it an error, and nobody else anything."""

import asyncio
import logging
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from tiny_server import PATIENCE_S, json, load_tiny, predicate, request, serving, text

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import model_service_pb2 as model_pb
from dicast_server.service.calls import Deadlines
from dicast_server.service.limits import Limits
from dicast_server.service.loading import Served

DECIDE = "/dicast.v1.DecisionService/Decide"
STREAM = "/dicast.v1.DecisionService/StreamDecide"
MALFORMED = [b"\xff\xff\xff\xff", b"\x12\x7f", b"\x0a\x01\xff", b"\x12\x03\x0a\x01\xff"]


def reason(error: grpc.aio.AioRpcError) -> str:
    status = rpc_status.from_call(error)
    assert status is not None
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return str(info.reason)


async def raw(method: Any, data: bytes) -> Any:
    return await method(data)


@pytest.mark.parametrize("data", MALFORMED)
async def test_bytes_that_are_no_message(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as running:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await raw(running.channel.unary_unary(DECIDE), data)
        assert (caught.value.code(), reason(caught.value)) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID")
        stream: Any = running.channel.stream_stream(STREAM)()
        await stream.write(data)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            while await stream.read() is not grpc.aio.EOF:
                pass
        assert (caught.value.code(), reason(caught.value)) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID")
        assert (await running.decisions.Decide(request())).answers
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "state",
    [
        pb.State(text="word " * 700_000),
        pb.State(json="[" + ",".join(["1"] * 1_500_000) + "]"),
    ],
    ids=["text", "json"],
)
async def test_megabytes_are_refused_without_being_tokenised(state: pb.State) -> None:
    async with serving() as running:
        message = service_pb.DecideRequest(state=state, questions=[predicate()])
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.decisions.Decide(message)
        assert reason(caught.value) == "CONTEXT_EXCEEDED"
        assert "takes at least" in f"{caught.value.details()}"
        assert running.gate.count == 0


EMOJI = "😀" * 1000


@pytest.mark.parametrize(
    "message",
    [
        service_pb.DecideRequest(
            state=pb.State(text="s"), questions=[predicate()], extensions=[pb.Extension(name=EMOJI)]
        ),
        service_pb.DecideRequest(
            state=pb.State(text="s"),
            questions=[
                pb.Question(
                    key="q", instructions=json(f'{{"{EMOJI}": 1, "{EMOJI}": 2}}'), predicate=pb.Predicate()
                )
            ],
        ),
        service_pb.DecideRequest(
            state=pb.State(text="s"), questions=[pb.Question(key=f"{EMOJI}{n}") for n in range(300)]
        ),
        service_pb.DecideRequest(model=EMOJI, state=pb.State(text="s"), questions=[predicate()]),
    ],
)
async def test_an_error_about_long_text_keeps_its_status(message: service_pb.DecideRequest) -> None:
    async with serving() as running:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.decisions.Decide(message)
        assert caught.value.code() in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND}
        assert reason(caught.value) in {"INVALID", "MODEL_NOT_FOUND"}


async def test_the_log_has_no_word_of_a_request(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "dicast_server")
    async with serving() as running:
        for message in (
            service_pb.DecideRequest(state=pb.State(json='{"SECRET": "\\ud800"}'), questions=[predicate()]),
            service_pb.DecideRequest(
                state=pb.State(text="SECRET"), questions=[pb.Question(key="SECRET", instructions=json("{"))]
            ),
            service_pb.DecideRequest(
                state=pb.State(text="s"),
                questions=[predicate()],
                extensions=[pb.Extension(name="SECRET" * 100_000)],
            ),
        ):
            with pytest.raises(grpc.aio.AioRpcError):
                await running.decisions.Decide(message)
        await running.decisions.Decide(request(predicate("SECRET", "SECRET?"), state="SECRET"))
    assert "SECRET" not in caplog.text


def large_answers(count: int) -> service_pb.DecideRequest:
    """A request whose answers fill a connection that nobody reads."""
    questions = [
        pb.Question(key=f"{n}" + "k" * 300_000, instructions=text(f"{n}?"), predicate=pb.Predicate())
        for n in range(count)
    ]
    return service_pb.DecideRequest(state=pb.State(text="s"), questions=questions)


async def test_a_reader_who_does_not_read_keeps_no_place() -> None:
    async with serving(limits=Limits(in_flight=2)) as running:
        stream = running.decisions.StreamDecide()
        for n in range(2):
            await stream.write(service_pb.StreamDecideRequest(id=str(n), request=large_answers(6)))
        await stream.read()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    reply = await running.decisions.Decide(request(predicate()))
                    break
                except grpc.aio.AioRpcError as error:
                    # Until the engine is done with the stream's requests.
                    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                    await asyncio.sleep(0.01)
        assert reply.answers
        stream.cancel()


async def test_a_deadline_while_nobody_reads_ends_its_request_and_not_the_stream(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(deadlines=Deadlines(default_s=0.4)) as running:
        stream = running.decisions.StreamDecide()
        for n in range(4):
            await stream.write(service_pb.StreamDecideRequest(id=str(n), request=large_answers(6)))
        await running.gate.reached()
        await asyncio.sleep(0.8)  # the deadline itself has to pass
        await stream.done_writing()
        ends = {}
        async for event in stream:
            if not event.HasField("answer"):
                ends[event.id] = event
        assert sorted(ends) == list("0123")
        codes = {event.error.code for event in ends.values() if event.HasField("error")}
        assert codes <= {grpc.StatusCode.DEADLINE_EXCEEDED.value[0]}
    assert "Traceback" not in caplog.text


async def test_a_stream_that_is_cancelled_in_a_send_leaves_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as running:
        for _ in range(5):
            stream = running.decisions.StreamDecide()
            await stream.write(service_pb.StreamDecideRequest(id="a", request=large_answers(6)))
            await stream.read()
            stream.cancel()
        assert (await running.decisions.Decide(request(predicate()))).answers
    assert "Traceback" not in caplog.text


async def test_ids_of_a_stream_are_bounded() -> None:
    async with serving() as running:
        stream = running.decisions.StreamDecide()
        await stream.write(service_pb.StreamDecideRequest(id="i" * 2_000_000, request=request()))
        event: Any = await stream.read()
        assert event.id == "i" * 128
        assert "1 to 128 characters" in event.error.violations[0].description
        await stream.write(service_pb.StreamDecideRequest(id="i" * 128, request=request(predicate())))
        event = await stream.read()
        assert event.HasField("answer")
        await stream.done_writing()


async def test_requests_that_were_given_up_do_not_wait_in_the_queue() -> None:
    async with serving() as running:
        running.gate.hold()
        calls = [running.decisions.Decide(request(predicate(), state=str(n))) for n in range(20)]
        async with asyncio.timeout(PATIENCE_S):
            while running.host.engine.load < 20:
                await asyncio.sleep(0.001)
        for call in calls[1:]:
            call.cancel()
        await running.models.ListModels(model_pb.ListModelsRequest())
        running.gate.release()
        await calls[0]
        async with asyncio.timeout(PATIENCE_S):
            while running.host.engine.load:
                await asyncio.sleep(0.001)


def with_little_context() -> Served:
    served = load_tiny()
    return replace(served, model=replace(served.model, context=64))


async def test_a_model_that_cannot_read_its_self_check_is_refused() -> None:
    async with serving(with_little_context) as running:
        model = (await running.models.GetModel(model_pb.GetModelRequest())).model
        assert model.status == model_pb.Model.STATUS_REFUSED
        assert "self-check" in model.status_message


async def test_a_server_whose_engine_died_ends_at_once() -> None:
    async with serving(drain_s=60.0) as running:
        idle = running.decisions.StreamDecide()
        await idle.write(service_pb.StreamDecideRequest(id="a", request=request(predicate())))
        await idle.read()
        running.gate.fault = SystemExit("gone")
        with pytest.raises(grpc.aio.AioRpcError):
            await running.decisions.Decide(request(state="other"))
        async with asyncio.timeout(PATIENCE_S):
            await running.host.engine_died.wait()
            await running.server.drain()


async def test_a_stream_that_is_left_with_much_unsent_leaves_no_task() -> None:
    async with serving() as running:
        questions = [
            pb.Question(key=f"{n}" + "k" * 100_000, instructions=text(f"{n}?"), predicate=pb.Predicate())
            for n in range(35)
        ]
        message = service_pb.DecideRequest(state=pb.State(text="s"), questions=questions)
        stream = running.decisions.StreamDecide()
        await stream.write(service_pb.StreamDecideRequest(id="a", request=message))
        await stream.read()
        async with asyncio.timeout(PATIENCE_S):
            while running.host.engine.load:
                await asyncio.sleep(0.001)
        assert reading_tasks()
        stream.cancel()
        async with asyncio.timeout(10):
            while reading_tasks():
                await asyncio.sleep(0.01)


def reading_tasks() -> list[str]:
    """The server's tasks that read streams or answer their requests."""
    names = [getattr(task.get_coro(), "__name__", "") for task in asyncio.all_tasks()]
    return [name for name in names if name in {"_read_stream", "_answer_one"}]
