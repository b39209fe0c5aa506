"""From the start of a server to its end: readiness, refusal, the engine's death, the drain."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2
from tiny_server import (
    PATIENCE_S,
    health,
    load_tiny,
    refusal,
    request,
    serving,
)

from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import model_service_pb2 as model_pb
from dicast_server.models import ModelRefused
from dicast_server.service.host import Status
from dicast_server.service.loading import Served, _letter_tokens
from dicast_server.service.selfcheck import SelfCheck

ServingStatus = health_pb2.HealthCheckResponse


async def test_health_follows_the_model() -> None:
    async with serving(wait=False) as running:
        assert await health(running) == ServingStatus.NOT_SERVING
        assert (await running.models.GetModel(model_pb.GetModelRequest())).model.status == (
            model_pb.Model.STATUS_STARTING
        )
        code, info, details = await refusal(running.decisions.Decide(request()))
        assert (code, info.reason) == (grpc.StatusCode.UNAVAILABLE, "STARTING")
        retry = error_details_pb2.RetryInfo()
        assert details[0].Unpack(retry)
        assert await running.server.make_ready() is Status.READY
        for service in ("", "dicast.v1.DecisionService", "dicast.v1.ModelService"):
            assert await health(running, service) == ServingStatus.SERVING
        assert (await running.decisions.Decide(request())).answers


def refuse() -> Served:
    raise ModelRefused("the model has no chat template.")


def fail() -> Served:
    raise OSError("/secret/path is broken")


@pytest.mark.parametrize(
    ("load", "why"),
    [
        (refuse, "no chat template"),
        (fail, "the server's log says why"),
        (load_tiny, "of its probability on the letters"),
    ],
)
async def test_a_model_that_cannot_answer_is_not_served_and_says_why(load: Any, why: str) -> None:
    async with serving(load, least_option_mass=0.999) as running:
        assert await health(running) == ServingStatus.NOT_SERVING
        shown = (await running.models.GetModel(model_pb.GetModelRequest())).model
        assert shown.status == model_pb.Model.STATUS_REFUSED
        assert why in shown.status_message
        assert "/secret" not in shown.status_message
        code, info, details = await refusal(running.decisions.Decide(request()))
        assert (code, info.reason) == (grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE")
        assert not details


async def test_a_tokenizer_without_letters_is_refused() -> None:
    served = load_tiny()

    class Frame:
        def of(self) -> "Frame":
            return self

        def label_ids(self, labels: Sequence[str]) -> dict[str, int]:
            return {label: ord(label) for label in labels if label != "Q"}

    with pytest.raises(ModelRefused, match="Q are not single tokens"):
        _letter_tokens(replace(served.model, frames=Frame()))  # type: ignore[arg-type]


async def test_the_engines_death_fails_all_waiters_and_readiness() -> None:
    async with serving() as running:
        running.gate.hold()
        calls = [asyncio.ensure_future(running.decisions.Decide(request(state=str(n)))) for n in range(3)]
        await running.gate.reached()
        running.gate.fault = SystemExit("gone")
        running.gate.release()
        for call in calls:
            code, info, _ = await refusal(call)
            assert (code, info.reason) == (grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE")
        async with asyncio.timeout(PATIENCE_S):
            await running.host.engine_died.wait()
        code, info, _ = await refusal(running.decisions.Decide(request()))
        assert info.reason == "MODEL_UNAVAILABLE"


async def test_a_fault_at_the_end_of_the_self_check_refuses_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(self: SelfCheck, least_mass: float) -> bool:
        raise RuntimeError("a fault")

    monkeypatch.setattr(SelfCheck, "reaches", broken)
    async with serving(wait=False) as running:
        assert await running.server.make_ready() is Status.REFUSED
        assert "the server's log says why" in running.host.status_message


async def test_plans_that_were_given_up_keep_their_place_until_they_end() -> None:
    async with serving() as running:
        host, opened = running.host, threading.Event()
        started: list[int] = []

        def slow(number: int) -> None:
            started.append(number)
            assert opened.wait(PATIENCE_S)

        given_up = [asyncio.create_task(host.plan(partial(slow, number))) for number in range(2)]
        async with asyncio.timeout(PATIENCE_S):
            while len(started) < 2:
                await asyncio.sleep(0.001)
        for task in given_up:
            task.cancel()
        await asyncio.gather(*given_up, return_exceptions=True)
        third = asyncio.create_task(host.plan(partial(slow, 2)))
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(started) == 2
        opened.set()
        await third
        assert len(started) == 3


async def test_draining_finishes_what_is_in_flight_and_takes_nothing_new() -> None:
    async with serving() as running:
        running.gate.hold()
        call = asyncio.ensure_future(running.decisions.Decide(request()))
        await running.gate.reached()
        drain = asyncio.ensure_future(running.server.drain())
        async with asyncio.timeout(PATIENCE_S):
            while not running.host.draining:
                await asyncio.sleep(0.001)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.decisions.Decide(request())
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        running.gate.release()
        assert len((await call).answers) == 3
        await drain


async def test_draining_ends_what_takes_too_long() -> None:
    async with serving(drain_s=0.2) as running:
        running.gate.hold()
        stream = running.decisions.StreamDecide()
        await stream.write(service_pb.StreamDecideRequest(id="a", request=request()))
        await running.gate.reached()
        drain = asyncio.ensure_future(running.server.drain())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
        assert caught.value.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
        running.gate.release()
        await drain
