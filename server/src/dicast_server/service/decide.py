"""DecisionService: Decide, StreamDecide and Prewarm."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1.decision_service_pb2_grpc import DecisionServiceServicer
from dicast_server.decisions.answers import Answer
from dicast_server.engine.reader import Kept
from dicast_server.service import failures
from dicast_server.service.calls import Call, Context, Deadlines, as_failure, call, tenant
from dicast_server.service.catalogue import Catalogue
from dicast_server.service.failures import Violation
from dicast_server.service.limits import Limits
from dicast_server.service.messages import answer_message, usage_message
from dicast_server.service.requests import read_prewarm, read_request
from dicast_server.service.running import run

log = logging.getLogger(__name__)

Event = pb.Answer | pb.DecideSummary


class DecisionServicer(DecisionServiceServicer):
    """Answers requests with the models of a catalogue."""

    def __init__(self, catalogue: Catalogue, limits: Limits, deadlines: Deadlines) -> None:
        self._catalogue = catalogue
        self._limits = limits
        self._deadlines = deadlines

    async def Decide(  # noqa: N802 - the contract's name
        self, request: service_pb.DecideRequest, context: Context
    ) -> service_pb.DecideResponse:
        """Answer all questions of one request."""
        response = service_pb.DecideResponse()
        async with call(context, "Decide", self._deadlines.of(context)) as this:
            answers: dict[int, pb.Answer] = {}
            async with aclosing(self._decide(request, tenant(context), this)) as events:
                async for event in events:
                    if isinstance(event, pb.Answer):
                        answers[event.index] = event
                    else:
                        response.summary.CopyFrom(event)
            response.answers.extend(answers[index] for index in sorted(answers))
        return response

    # grpc.aio also takes a coroutine that writes, which the generated types do not know: several
    # requests write to one stream, and a generator could not be suspended by the slowest reader.
    async def StreamDecide(  # type: ignore[override]  # noqa: N802
        self, request_iterator: AsyncIterator[service_pb.StreamDecideRequest], context: Context
    ) -> None:
        """Answer any number of requests, each answer as soon as it is read."""
        async with call(context, "StreamDecide", None) as this:
            stream = _Stream(context, self._limits.stream_in_flight)
            async with asyncio.TaskGroup() as tasks:
                async for item in request_iterator:
                    if (refusal := stream.refusal(item.id)) is not None:
                        await stream.send_error(item.id, refusal, this.request_id)
                        continue
                    await stream.enter(item.id)
                    tasks.create_task(self._answer_one(item, stream, this.request_id))

    async def Prewarm(  # noqa: N802
        self, request: service_pb.PrewarmRequest, context: Context
    ) -> service_pb.PrewarmResponse:
        """Read a state and hold it in the store."""
        response = service_pb.PrewarmResponse()
        async with call(context, "Prewarm", self._deadlines.of(context)) as this:
            host = self._catalogue.find(request.model)
            planner = host.planner()
            state, hold_s = read_prewarm(request, self._limits)
            async with host.admitted():
                work = await asyncio.to_thread(
                    planner.prewarm, state, hold_s, request.cache_salt, tenant(context)
                )
                async with aclosing(run(host.engine, work.start)) as results:
                    async for result in results:
                        if isinstance(result, Kept):
                            response.kept, response.reason = not result.reason, result.reason
                        else:
                            response.prefix_tokens = result.input_tokens
                            response.cached_tokens = result.cached_tokens
            response.model = self._catalogue.id_of(host)
            response.request_id = this.request_id
        return response

    async def _answer_one(
        self, item: service_pb.StreamDecideRequest, stream: _Stream, stream_id: str
    ) -> None:
        this = Call(f"{stream_id}/{item.id}", time.monotonic())
        timeout_s = self._deadlines.of(stream.context)
        try:
            async with (
                asyncio.timeout(timeout_s),
                aclosing(self._decide(item.request, tenant(stream.context), this)) as events,
            ):
                async for event in events:
                    await stream.send(item.id, event)
        except Exception as error:
            await stream.send_error(item.id, as_failure(error, this.request_id, timeout_s), this.request_id)
        finally:
            stream.leave(item.id)

    async def _decide(
        self, request: service_pb.DecideRequest, tenant: str, this: Call
    ) -> AsyncGenerator[Event]:
        """One request's answers as they are read, then its summary."""
        if request.end_user:
            log.info("%s is for end user %.64r", this.request_id, request.end_user)
        host = self._catalogue.find(request.model)
        planner = host.planner()
        decision = read_request(request, self._limits)
        async with host.admitted():
            # Tokenising a long request takes longer than the event loop may be held.
            work = await asyncio.to_thread(planner.plan, decision, tenant)
            served = host.served
            assert served is not None
            async with aclosing(run(host.engine, work.start)) as results:
                async for result in results:
                    if isinstance(result, Answer):
                        yield answer_message(result, decision.detail, served.machinery.head_path)
                    else:
                        yield pb.DecideSummary(
                            model=served.model.id,
                            usage=usage_message(result),
                            request_id=this.request_id,
                            elapsed=this.elapsed(),
                        )


class _Stream:
    """The requests in flight on one stream, and its sending side."""

    def __init__(self, context: Context, most_in_flight: int) -> None:
        self.context = context
        self._slots = asyncio.Semaphore(most_in_flight)
        self._ids: set[str] = set()
        self._sending = asyncio.Lock()

    def refusal(self, id_: str) -> failures.Failure | None:
        """Why a request of this id cannot start now, or None."""
        if not id_:
            return failures.invalid([Violation("id", "is empty: name each request of a stream")])
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
            await self._write(service_pb.StreamDecideResponse(id=id_, answer=event))
        else:
            await self._write(service_pb.StreamDecideResponse(id=id_, summary=event))

    async def send_error(self, id_: str, failure: failures.Failure, request_id: str) -> None:
        """End a request with its error; the stream goes on."""
        error = failures.to_error(failure, request_id)
        await self._write(service_pb.StreamDecideResponse(id=id_, error=error))

    async def _write(self, response: service_pb.StreamDecideResponse) -> None:
        async with self._sending:
            await self.context.write(response)
