"""StreamDecide over real gRPC: order, ids, bounds, and streams that are left."""

import asyncio
from typing import Any

import grpc
from grpc_health.v1 import health_pb2
from tiny_server import (
    PATIENCE_S,
    idle,
    predicate,
    request,
    serving,
)

from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import error_pb2
from dicast.v1 import model_service_pb2 as model_pb
from dicast_server.engine.head import LabelScores
from dicast_server.service.limits import Limits

ServingStatus = health_pb2.HealthCheckResponse


async def next_event(stream: Any) -> service_pb.StreamDecideResponse:
    event = await stream.read()
    assert isinstance(event, service_pb.StreamDecideResponse)
    return event


async def test_a_stream_answers_as_it_reads_and_outlives_a_bad_request() -> None:
    async with serving() as running:
        unary = await running.decisions.Decide(request())
        stream = running.decisions.StreamDecide()
        await stream.write(service_pb.StreamDecideRequest(id="bad", request=service_pb.DecideRequest()))
        await stream.write(service_pb.StreamDecideRequest(id="", request=request()))
        await stream.write(service_pb.StreamDecideRequest(id="a", request=request()))
        await stream.write(service_pb.StreamDecideRequest(id="b", request=request(predicate(), state="b")))
        await stream.done_writing()
        seen: dict[str, list[Any]] = {}
        async for event in stream:
            seen.setdefault(event.id, []).append(event)
    (bad,) = seen["bad"]
    assert bad.error.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert bad.error.reason == error_pb2.ERROR_REASON_INVALID
    assert [violation.field for violation in bad.error.violations] == ["state", "questions"]
    assert bad.error.request_id.endswith("/bad")
    assert seen[""][0].error.violations[0].field == "id"
    *answers, summary = seen["a"]
    assert summary.HasField("summary")
    assert summary.summary.usage.input_tokens == unary.summary.usage.input_tokens
    by_index = sorted((event.answer for event in answers), key=lambda answer: answer.index)
    assert by_index == list(unary.answers)
    assert [event.WhichOneof("event") for event in seen["b"]] == ["answer", "summary"]


async def test_an_id_in_use_is_an_error_and_may_be_used_again_after_its_end() -> None:
    async with serving() as running:
        running.gate.hold()
        stream = running.decisions.StreamDecide()
        message = service_pb.StreamDecideRequest(id="a", request=request(predicate()))
        await stream.write(message)
        await running.gate.reached()
        await stream.write(message)
        first = await next_event(stream)
        assert "in use" in first.error.violations[0].description
        running.gate.release()
        assert (await next_event(stream)).HasField("answer")
        assert (await next_event(stream)).HasField("summary")
        await stream.write(message)
        assert (await next_event(stream)).HasField("answer")
        assert (await next_event(stream)).HasField("summary")
        await stream.done_writing()
        assert await stream.read() is grpc.aio.EOF


async def test_an_answer_is_sent_before_the_next_forward() -> None:
    async with serving() as running:
        running.gate.hold()
        stream = running.decisions.StreamDecide()
        await stream.write(
            service_pb.StreamDecideRequest(
                id="a", request=request(predicate("1", "One?"), predicate("2", "Two?"), isolated=True)
            )
        )
        await running.gate.reached()
        gate = running.gate
        forwards_before_the_last = gate.count

        def stop_at_the_second_tail(scores: LabelScores) -> LabelScores:
            gate.spoil = None
            gate.hold()
            return scores

        gate.spoil = stop_at_the_second_tail
        gate.release()
        first = await next_event(stream)
        assert first.answer.key == "1"
        assert gate.count > forwards_before_the_last
        await gate.reached()
        gate.release()
        assert (await next_event(stream)).answer.key == "2"
        assert (await next_event(stream)).HasField("summary")
        await stream.done_writing()


async def test_a_stream_that_is_left_stops_its_work() -> None:
    async with serving() as running:
        running.gate.hold()
        stream = running.decisions.StreamDecide()
        for n in range(5):
            await stream.write(
                service_pb.StreamDecideRequest(id=str(n), request=request(state=f"{n} long " * 150))
            )
        await running.gate.reached()
        stream.cancel()
        await running.models.ListModels(model_pb.ListModelsRequest())
        running.gate.release()
        await idle(running)
        assert running.gate.count <= 2


async def test_a_stream_reads_no_further_while_as_many_as_may_are_in_flight() -> None:
    async with serving(limits=Limits(stream_in_flight=2)) as running:
        running.gate.hold()
        stream = running.decisions.StreamDecide()
        for n in range(6):
            await stream.write(service_pb.StreamDecideRequest(id=str(n), request=request(predicate())))
        await stream.done_writing()
        await running.gate.reached()
        async with asyncio.timeout(PATIENCE_S):
            while running.host.engine.load < 2:
                await asyncio.sleep(0.001)
        assert running.host.engine.load == 2
        running.gate.release()
        ends = [event.id async for event in stream if event.HasField("summary")]
        assert sorted(ends) == list("012345")
