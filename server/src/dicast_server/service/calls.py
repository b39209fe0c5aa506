"""One call from its arrival to its status: named, logged, bounded by its deadline, its failures mapped."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import duration_pb2
from grpc_status import rpc_status

from dicast_server.service import failures
from dicast_server.service.failures import Failure

log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]

_MAX_REQUEST_ID = 128


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds that a call may take: where it says nothing, and at most."""

    default_s: float = 60.0
    cap_s: float = 600.0

    def of(self, context: Context) -> float:
        """Seconds that are left to a call."""
        remaining: float | None = context.time_remaining()
        return self.default_s if remaining is None else min(remaining, self.cap_s)


@dataclass(frozen=True, slots=True)
class Call:
    """A call under way."""

    request_id: str
    started: float

    def elapsed(self) -> duration_pb2.Duration:
        """Time since the call arrived."""
        duration = duration_pb2.Duration()
        duration.FromNanoseconds(int((time.monotonic() - self.started) * 1e9))
        return duration


def request_id(context: Context) -> str:
    """The caller's x-request-id where it is printable ASCII of reasonable length, else a new one."""
    metadata = context.invocation_metadata() or ()
    sent = next((str(value) for key, value in metadata if key == "x-request-id"), "")
    sane = 0 < len(sent) <= _MAX_REQUEST_ID and sent.isascii() and sent.isprintable()
    return sent if sane else uuid.uuid4().hex


@asynccontextmanager
async def call(
    context: Context, method: str, timeout_s: float | None, log_level: int = logging.INFO
) -> AsyncIterator[Call]:
    """Run a call's body: its failures end the call with their status.

    `timeout_s` bounds the body; None leaves that to the body. `log_level` is that of a success.
    """
    this = Call(request_id(context), time.monotonic())
    await context.send_initial_metadata((("x-request-id", this.request_id),))
    try:
        async with asyncio.timeout(timeout_s):
            yield this
    except Exception as error:
        failure = as_failure(error, this.request_id, timeout_s)
        log.info("%s %s: %s", this.request_id, method, failure.for_the_log)
        await context.abort_with_status(rpc_status.to_status(failures.to_status(failure, this.request_id)))
    except asyncio.CancelledError:
        log.info("%s %s: the caller left", this.request_id, method)
        raise
    else:
        elapsed_ms = 1e3 * (time.monotonic() - this.started)
        log.log(log_level, "%s %s: OK in %.0f ms", this.request_id, method, elapsed_ms)


def as_failure(error: Exception, request_id: str, timeout_s: float | None) -> Failure:
    """What a caller hears of an error. A fault of the server is logged and hidden."""
    if isinstance(error, ExceptionGroup):
        # Of requests side by side: the first that fell took the others with it.
        return as_failure(error.exceptions[0], request_id, timeout_s)
    if isinstance(error, Failure):
        return error
    if isinstance(error, TimeoutError) and timeout_s is not None:
        return failures.deadline(timeout_s)
    log.error("%s failed", request_id, exc_info=error)
    return failures.internal(request_id)
