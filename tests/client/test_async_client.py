"""AsyncClient is Client with await."""

from __future__ import annotations

import asyncio
import inspect
import threading

import grpc
import pytest
from client.fake_service import MODEL_ID, FakeService, fail

import dicast
from dicast import AsyncClient, Choice, Client, Predicate


def test_both_clients_have_the_same_methods_and_arguments() -> None:
    public = [name for name in vars(Client) if not name.startswith("_")]
    assert public == [name for name in vars(AsyncClient) if not name.startswith("_")]
    for name in ("__init__", *(name for name in public if name != "stream")):
        here, there = inspect.signature(getattr(Client, name)), inspect.signature(getattr(AsyncClient, name))
        assert list(here.parameters.values()) == list(there.parameters.values())


async def test_decide_models_and_prewarm(fake: FakeService) -> None:
    async with AsyncClient(fake.address, api_key="k") as client:
        decision = await client.decide("x", {"a": Predicate("?"), "b": Choice("?", ["x", True])}, timeout_s=5)
        (model,) = await client.models()
        same = await client.model("jev-latest")
        kept = await client.prewarm("x")
    assert decision.predicate("a").probability == 0.7
    assert decision.choice("b").value == "x"
    assert model == same and model.id == MODEL_ID
    assert kept.kept
    assert all(call.metadata["authorization"] == "Bearer k" for call in fake.calls)
    left = [call.seconds_left for call in fake.calls]
    assert left[0] is not None and left[0] < 6
    assert left[1] is not None and 50 < left[1] < 61


async def test_calls_run_side_by_side(fake: FakeService) -> None:
    both = threading.Barrier(2, timeout=10)
    answered = fake.decide

    def script(request: object, context: grpc.ServicerContext) -> object:
        both.wait()
        return answered(request, context)  # type: ignore[arg-type]

    fake.decide = script
    async with AsyncClient(fake.address) as client:
        found = await asyncio.gather(*(client.decide("x", [Predicate("?")]) for _ in range(2)))
    assert len(found) == 2


async def test_failures_are_the_same_classes(fake: FakeService) -> None:
    fake.decide = lambda _, context: fail(context, grpc.StatusCode.INVALID_ARGUMENT, "no")
    async with AsyncClient(fake.address) as client:
        with pytest.raises(dicast.InvalidRequest) as caught:
            await client.decide("x", [Predicate("?")], request_id="mine")
        with pytest.raises(dicast.NotFound):
            await client.model("other")
        with pytest.raises(ValueError, match="state"):
            await client.decide(float("nan"), [Predicate("?")])
    assert caught.value.request_id == "mine"
    assert len(fake.calls) == 2


async def test_an_unavailable_server_is_asked_three_times(fake: FakeService) -> None:
    fake.decide = lambda _, context: fail(context, grpc.StatusCode.UNAVAILABLE, "starting")
    async with AsyncClient(fake.address) as client:
        with pytest.raises(dicast.Unavailable):
            await client.decide("x", [Predicate("?")])
    async with AsyncClient(fake.address, retries=False) as client:
        with pytest.raises(dicast.Unavailable):
            await client.decide("x", [Predicate("?")])
    assert len(fake.calls) == 3 + 1


async def test_cancelling_the_task_cancels_the_call(fake: FakeService) -> None:
    running, ended = threading.Event(), threading.Event()

    def script(_: object, context: grpc.ServicerContext) -> None:
        context.add_callback(ended.set)
        running.set()
        ended.wait(10)

    fake.decide = script
    async with AsyncClient(fake.address) as client:
        task = asyncio.create_task(client.decide("x", [Predicate("?")]))
        assert await asyncio.to_thread(running.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(ended.wait, 10)


async def test_its_repr_masks_the_key() -> None:
    async with AsyncClient("h:1", api_key="secret") as client:
        assert repr(client) == "AsyncClient('h:1', api_key=***, timeout_s=60.0)"
