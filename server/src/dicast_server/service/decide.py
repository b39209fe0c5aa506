"""DecisionService: Decide, StreamDecide and Prewarm."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1.decision_service_pb2_grpc import DecisionServiceServicer
from dicast_server.decisions.answers import Answer
from dicast_server.engine.reader import Kept, Prewarming, Tally, Work
from dicast_server.service import failures
from dicast_server.service.calls import Call, Context, Deadlines, as_failure, call
from dicast_server.service.catalogue import Catalogue
from dicast_server.service.entry import Entry
from dicast_server.service.failures import Violation
from dicast_server.service.host import Host
from dicast_server.service.keys import Callers
from dicast_server.service.limits import Limits
from dicast_server.service.messages import answer_message, usage_message
from dicast_server.service.requests import read_prewarm, read_request
from dicast_server.service.running import Startable, run

log = logging.getLogger(__name__)

Event = pb.Answer | pb.DecideSummary
Result_co = TypeVar("Result_co", covariant=True)


class DecisionServicer(DecisionServiceServicer):
    """Answers requests with the models of a catalogue."""

    def __init__(self, catalogue: Catalogue, limits: Limits, deadlines: Deadlines, callers: Callers) -> None:
        self._catalogue = catalogue
        self._host = catalogue.host
        self._limits = limits
        self._deadlines = deadlines
        self._callers = callers

    async def Decide(  # noqa: N802 - the contract's name
        self, request: service_pb.DecideRequest, context: Context
    ) -> service_pb.DecideResponse:
        """Answer all questions of one request."""
        response = service_pb.DecideResponse()
        async with call(context, "Decide", self._deadlines.of(context)) as this:
            tenant = self._callers.tenant(context)
            answers: dict[int, pb.Answer] = {}
            async with aclosing(self._decide(request, tenant, this)) as events:
                async for event in events:
                    if isinstance(event, pb.Answer):
                        answers[event.index] = event
                    else:
                        response.summary.CopyFrom(event)
            response.answers.extend(answers[index] for index in sorted(answers))
        return response

    async def StreamDecide(  # noqa: N802
        self, request_iterator: AsyncIterator[service_pb.StreamDecideRequest], context: Context
    ) -> AsyncIterator[service_pb.StreamDecideResponse]:
        """Answer any number of requests, each answer as soon as it is read."""
        async with call(context, "StreamDecide", None) as this:
            tenant = self._callers.tenant(context)
            stream = _Stream(self._limits)
            reading = asyncio.create_task(self._read_stream(request_iterator, stream, context, tenant, this))
            # Also when the caller leaves while this generator is held up in a send.
            left: Any = partial(_cancel, reading)
            context.add_done_callback(left)
            try:
                while (response := await stream.outbox.get()) is not None:
                    yield response
                await reading
            finally:
                reading.cancel()
                # Its requests stop with it, before the engine's next forward.
                await asyncio.gather(reading, return_exceptions=True)

    async def Prewarm(  # noqa: N802
        self, request: service_pb.PrewarmRequest, context: Context
    ) -> service_pb.PrewarmResponse:
        """Read a state and hold it in the store."""
        response = service_pb.PrewarmResponse()
        async with call(context, "Prewarm", self._deadlines.of(context)) as this:
            tenant = self._callers.tenant(context)
            entry = self._catalogue.find(request.model)
            planner = self._host.planner(entry)

            def plan() -> Prewarming:
                state, hold_s = read_prewarm(request, self._limits)
                return planner.prewarm(state, hold_s, request.cache_salt, tenant)

            async with _work(self._host, entry, plan) as results:
                async for result in results:
                    if isinstance(result, Kept):
                        response.kept, response.reason = not result.reason, result.reason
                    else:
                        response.prefix_tokens = result.input_tokens
                        response.cached_tokens = result.cached_tokens
            response.model = self._catalogue.id_of(entry)
            response.request_id = this.request_id
        return response

    async def _read_stream(
        self,
        requests: AsyncIterator[service_pb.StreamDecideRequest],
        stream: _Stream,
        context: Context,
        tenant: str,
        this: Call,
    ) -> None:
        """Take requests off a stream and answer them side by side, until its sender has closed it."""
        try:
            async with asyncio.TaskGroup() as tasks:
                async for item in requests:
                    if (refusal := stream.refusal(item.id)) is not None:
                        await stream.send_error(item.id, refusal, this.request_id)
                        continue
                    await stream.enter(item.id)
                    tasks.create_task(self._answer_one(item, stream, context, tenant, this.request_id))
        except asyncio.CancelledError:
            # A caller who left takes nothing out of a full outbox, where a last put would wait for ever.
            raise
        except BaseException:
            await stream.outbox.put(None)
            raise
        else:
            await stream.outbox.put(None)

    async def _answer_one(
        self,
        item: service_pb.StreamDecideRequest,
        stream: _Stream,
        context: Context,
        tenant: str,
        stream_id: str,
    ) -> None:
        this = Call(f"{stream_id}/{item.id}", time.monotonic())
        timeout_s = self._deadlines.of(context)
        try:
            async with (
                asyncio.timeout(timeout_s),
                aclosing(self._decide(item.request, tenant, this)) as events,
            ):
                async for event in events:
                    await stream.send(item.id, event)
        except Exception as error:
            failure = as_failure(error, this.request_id, timeout_s)
            await stream.send_error(item.id, failure, this.request_id)
        finally:
            stream.leave(item.id)

    async def _decide(
        self, request: service_pb.DecideRequest, tenant: str, this: Call
    ) -> AsyncGenerator[Event]:
        """One request's answers as they are read, then its summary."""
        if request.end_user:
            log.info("%s is for end user %.64r", this.request_id, request.end_user)
        entry = self._catalogue.find(request.model)
        planner = self._host.planner(entry)

        def plan() -> Work[Answer]:
            return planner.plan(read_request(request, self._limits, planner.registry), tenant)

        async with _work(self._host, entry, plan) as results:
            served = entry.served
            assert served is not None
            async for result in results:
                if isinstance(result, Answer):
                    yield answer_message(result, request.options.detail, served.machinery.head_path)
                else:
                    yield pb.DecideSummary(
                        model=served.id,
                        usage=usage_message(result),
                        request_id=this.request_id,
                        elapsed=this.elapsed(),
                    )


def _cancel(task: asyncio.Task[None], _: object) -> None:
    task.cancel()


@asynccontextmanager
async def _work(
    host: Host, entry: Entry, plan: Callable[[], Startable[Result_co]]
) -> AsyncIterator[AsyncGenerator[Result_co | Tally]]:
    """Plan a request and run it: what the engine finds, then the tally.

    Its place among those in flight is free again as soon as the engine is done, however slowly its
    caller reads.
    """
    slot = host.admit(entry)
    try:
        work = await host.plan(plan)
        async with aclosing(run(host.engine, work, slot.release)) as results:
            yield results
    finally:
        slot.release()


class _Stream:
    """The requests in flight on one stream, and what waits to be sent on it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.stream_in_flight)
        self._ids: set[str] = set()
        # A reader who is slow holds up those who answer, not the engine.
        self.outbox: asyncio.Queue[service_pb.StreamDecideResponse | None] = asyncio.Queue(maxsize=16)

    def refusal(self, id_: str) -> failures.Failure | None:
        """Why a request of this id cannot start now, or None."""
        most = self._limits.stream_id_chars
        if not 0 < len(id_) <= most:
            return failures.invalid([Violation("id", f"must have 1 to {most} characters")])
        if id_ in self._ids:
            return failures.invalid([Violation("id", "is in use by another request of this stream")])
        return None

    async def enter(self, id_: str) -> None:
        """Wait for a slot: until then nothing more is read from the stream."""
        self._ids.add(id_)
        await self._slots.acquire()

    def leave(self, id_: str) -> None:
        """Give the slot and the id back."""
        self._ids.discard(id_)
        self._slots.release()

    async def send(self, id_: str, event: Event) -> None:
        """Send an answer or a summary."""
        if isinstance(event, pb.Answer):
            await self.outbox.put(service_pb.StreamDecideResponse(id=id_, answer=event))
        else:
            await self.outbox.put(service_pb.StreamDecideResponse(id=id_, summary=event))

    async def send_error(self, id_: str, failure: failures.Failure, request_id: str) -> None:
        """End a request with its error; the stream goes on. An id beyond the limit comes back cut."""
        error = failures.to_error(failure, request_id)
        shown = id_[: self._limits.stream_id_chars]
        await self.outbox.put(service_pb.StreamDecideResponse(id=shown, error=error))
