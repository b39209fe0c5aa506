"""StreamDecide through both clients: events as they come, failures alone, cancellation, backpressure."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import pytest
from client.fake_service import FakeService, answer, summary

import dicast
from dicast import Answered, AsyncClient, Client, Completed, Failed, Predicate, Request
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import error_pb2

ONE = [Predicate("?")]
TWO = [Predicate("?"), Predicate("?")]


def interleave(requests: Iterator[Any], _: grpc.ServicerContext) -> Iterator[Any]:
    """Takes two requests; sends their answers in turns, the second one fails at its end."""
    first, second = next(requests), next(requests)
    for index in range(2):
        for each in (first, second):
            reply = answer(index, each.request.questions[index])
            yield service_pb.StreamDecideResponse(id=each.id, answer=reply)
    error = error_pb2.DecideError(code=13, reason=error_pb2.ERROR_REASON_INTERNAL, message="broken")
    yield service_pb.StreamDecideResponse(id=second.id, error=error)
    yield service_pb.StreamDecideResponse(id=first.id, summary=summary("r"))


def shape(event: dicast.Event) -> tuple[str, str]:
    match event:
        case Answered(id=name, answer=found):
            return name, found.key
        case Completed(id=name, summary=found_summary):
            return name, found_summary.request_id
        case Failed(id=name, error=error):
            return name, error.message


INTERLEAVED = [("a", "0"), ("b", "0"), ("a", "1"), ("b", "1"), ("b", "broken"), ("a", "r")]


def test_answers_interleave_and_a_failure_leaves_the_others(fake: FakeService) -> None:
    fake.stream = interleave
    with (
        Client(fake.address) as client,
        client.stream([Request("a", "x", TWO), Request("b", "y", TWO)]) as events,
    ):
        found = list(events)
    assert [shape(event) for event in found] == INTERLEAVED
    failed = found[4]
    assert isinstance(failed, Failed) and isinstance(failed.error, dicast.Internal)


async def test_answers_interleave_asynchronously(fake: FakeService) -> None:
    fake.stream = interleave
    requests = [Request("a", "x", TWO), Request("b", "y", TWO)]
    async with AsyncClient(fake.address) as client, client.stream(requests) as events:
        assert [shape(event) async for event in events] == INTERLEAVED


def test_an_answer_may_decide_the_next_request(fake: FakeService) -> None:
    more = threading.Semaphore(1)

    def requests() -> Iterator[Request]:
        for number in range(3):
            more.acquire()
            yield Request(str(number), "x", ONE)

    seen = []
    with Client(fake.address) as client, client.stream(requests()) as events:
        for event in events:
            seen.append(shape(event))
            if isinstance(event, Completed):
                more.release()
    assert [name for name, _ in seen] == ["0", "0", "1", "1", "2", "2"]


async def test_an_async_iterable_of_requests(fake: FakeService) -> None:
    more = asyncio.Semaphore(1)

    async def requests() -> AsyncIterator[Request]:
        for number in range(3):
            await more.acquire()
            yield Request(str(number), "x", ONE)

    seen = []
    async with AsyncClient(fake.address) as client, client.stream(requests()) as events:
        async for event in events:
            seen.append(shape(event)[0])
            if isinstance(event, Completed):
                more.release()
    assert seen == ["0", "0", "1", "1", "2", "2"]


def endless(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
    first = next(requests)
    while context.is_active():
        yield service_pb.StreamDecideResponse(id=first.id, answer=answer(0, first.request.questions[0]))


def test_closing_early_cancels_on_the_server(fake: FakeService) -> None:
    fake.stream = endless
    with Client(fake.address) as client:
        with client.stream([Request("a", "x", ONE)]) as events:
            next(events)
        assert fake.cancelled.wait(10)
        assert list(events) == []


def test_a_forgotten_stream_is_cancelled_too(fake: FakeService) -> None:
    fake.stream = endless
    with Client(fake.address) as client:
        for _ in client.stream([Request("a", "x", ONE)]):
            break
        assert fake.cancelled.wait(10)


async def test_closing_early_cancels_on_the_server_asynchronously(fake: FakeService) -> None:
    fake.stream = endless
    async with AsyncClient(fake.address) as client:
        async with client.stream([Request("a", "x", ONE)]) as events:
            await anext(events)
        assert await asyncio.to_thread(fake.cancelled.wait, 10)
        assert [event async for event in events] == []


async def test_cancelling_the_task_cancels_on_the_server(fake: FakeService) -> None:
    fake.stream = endless
    started = asyncio.Event()

    async def read() -> None:
        async with AsyncClient(fake.address) as client, client.stream([Request("a", "x", ONE)]) as events:
            async for _ in events:
                started.set()

    task = asyncio.create_task(read())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(fake.cancelled.wait, 10)


def test_requests_are_read_only_as_fast_as_the_server_takes_them(fake: FakeService) -> None:
    release = threading.Event()
    taken = 0

    def slow(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        next(requests)
        yield service_pb.StreamDecideResponse(id="0", summary=summary("r"))
        release.wait(20)

    def requests() -> Iterator[Request]:
        nonlocal taken
        for number in range(200):
            taken += 1
            yield Request(str(number), "x" * 500_000, ONE)

    fake.stream = slow
    with Client(fake.address) as client, client.stream(requests()) as events:
        next(events)
        before = -1
        while taken > before:  # until nothing more is read
            before = taken
            release.wait(0.3)
        assert taken < 100  # HTTP/2's windows hold a few; the rest of 100 MB was not even made
        release.set()


def mistaken() -> Iterator[Request]:
    yield Request("a", "x", ONE)
    yield Request("b", {"bad": float("nan")}, ONE)


def test_a_mistake_in_the_iterable_is_raised_after_the_answers_before_it(fake: FakeService) -> None:
    seen = []
    wanted = pytest.raises(ValueError, match=r"state\.bad: nan")
    with Client(fake.address) as client, client.stream(mistaken()) as events, wanted:
        for event in events:
            seen.append(shape(event)[0])
    assert seen == ["a", "a"]


async def test_a_mistake_in_the_iterable_is_raised_asynchronously(fake: FakeService) -> None:
    seen = []
    async with AsyncClient(fake.address) as client, client.stream(mistaken()) as events:
        with pytest.raises(ValueError, match=r"state\.bad: nan"):
            async for event in events:
                seen.append(shape(event)[0])
    assert seen == ["a", "a"]


def failing(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
    first = next(requests)
    yield service_pb.StreamDecideResponse(id=first.id, answer=answer(0, first.request.questions[0]))
    context.abort(grpc.StatusCode.UNAVAILABLE, "going down")


def test_the_end_of_the_stream_itself_is_an_error(fake: FakeService) -> None:
    fake.stream = failing
    with Client(fake.address) as client, client.stream([Request("a", "x", ONE)]) as events:
        next(events)
        with pytest.raises(dicast.Unavailable, match="going down"):
            next(events)


async def test_the_end_of_the_stream_itself_is_an_error_asynchronously(fake: FakeService) -> None:
    fake.stream = failing
    async with AsyncClient(fake.address) as client, client.stream([Request("a", "x", ONE)]) as events:
        await anext(events)
        with pytest.raises(dicast.Unavailable, match="going down"):
            await anext(events)


def test_a_stream_has_a_deadline(fake: FakeService) -> None:
    with Client(fake.address) as client:
        list(client.stream([]))
        list(client.stream([], timeout_s=None))
    assert fake.calls[0].seconds_left is not None and fake.calls[0].seconds_left < 61
    assert fake.calls[1].seconds_left is None
