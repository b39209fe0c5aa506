"""A decision as server-sent events: one per answer as soon as it is read, then the rest of the reply."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from dicast import jsontext
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast_gateway.accept import EVENT_STREAM
from dicast_gateway.dialect import Asked, Dialect
from dicast_gateway.engine import Engine, Metadata
from dicast_gateway.errors import GatewayError, internal, stopping

KEEP_ALIVE_S = 15.0
"""After so many seconds without an event a comment is sent, so that no proxy takes the line for dead."""

_LOG = logging.getLogger("dicast_gateway")
_COMMENT = b": keep-alive\n\n"
# Some proxies would collect the events until the stream ends.
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


class EventReply(StreamingResponse):
    """The response that carries events. What fails before the first of them is an ordinary error reply."""

    def __init__(self, events: AsyncGenerator[bytes], dialect: Dialect) -> None:
        super().__init__(events, headers=_HEADERS, media_type=EVENT_STREAM)
        self._events = events
        self._dialect = dialect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. An event is asked for when the one before it was taken: a slow reader slows the server."""
        async with aclosing(self._events) as events:
            try:
                first = await anext(events)
            except GatewayError as problem:
                await self._dialect.failure(problem)(scope, receive, send)
                return
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            await send({"type": "http.response.body", "body": first, "more_body": True})
            async for event in events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def event_stream(
    dialect: Dialect,
    asked: Asked,
    engine: Engine,
    *,
    timeout_s: float,
    metadata: Metadata,
    left: Callable[[], Awaitable[None]],
    keep_alive_s: float = KEEP_ALIVE_S,
) -> AsyncGenerator[bytes]:
    """Ask, and yield the events of the stream as text.

    Raises:
        GatewayError: it failed before the first event. Afterwards a failure is the last event.
    """
    started = False
    answers: dict[int, pb.Answer] = {}
    try:
        stream = engine.stream(asked.request, timeout_s, metadata, left(), keep_alive_s)
        async with aclosing(stream) as messages:
            async for message in messages:
                match message:
                    case None:
                        text = _COMMENT
                    case pb.Answer():
                        answers[message.index] = message
                        text = _answered(dialect, asked, message)
                    case pb.DecideSummary():
                        response = service_pb.DecideResponse(
                            answers=[answers[index] for index in sorted(answers)], summary=message
                        )
                        asked.check(response)
                        text = _done(dialect.answer(asked, response), metadata)
                # Of a question that is left out there is nothing to tell before the end.
                if text and (message is not None or started):
                    started = True
                    yield text
    except GatewayError as problem:
        found = problem.relocated(lambda path: dialect.locate(path, asked.request))
        if not started:
            raise found from problem
        yield _failed(dialect, found)
    except asyncio.CancelledError:
        # The time to drain is over. The task ends with this event, so nobody misses the cancellation.
        if not started:
            raise
        yield _failed(dialect, stopping())
    except Exception:
        if not started:
            raise
        _LOG.exception("a stream failed: %s", dict(metadata)["x-request-id"])
        yield _failed(dialect, internal())


def _answered(dialect: Dialect, asked: Asked, answer: pb.Answer) -> bytes:
    """The answer as a reply with no other would have it: no second form to keep in step."""
    reply = dialect.answer(asked, service_pb.DecideResponse(answers=[answer]))
    return b"".join(_event("answer", data) for data in dialect.named(answer.index, reply["answers"]))


def _done(reply: dict[str, Any], metadata: Metadata) -> bytes:
    rest = {name: value for name, value in reply.items() if name != "answers"}
    return _event("done", {**rest, "request_id": dict(metadata)["x-request-id"]})


def _failed(dialect: Dialect, problem: GatewayError) -> bytes:
    reply = dialect.failure(problem)
    body: Any = jsontext.parse(bytes(reply.body))
    return _event("error", {**body, "status": reply.status_code})


def _event(name: str, data: Any) -> bytes:
    # JSON text has no line break: it is one line of data.
    return f"event: {name}\ndata: {jsontext.encode(data)}\n\n".encode()
