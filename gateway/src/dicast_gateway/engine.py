"""The dicast server as the gateway sees it: one channel, and what is asked over it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import model_service_pb2 as model_pb
from dicast.v1.decision_service_pb2_grpc import DecisionServiceStub
from dicast.v1.model_service_pb2_grpc import ModelServiceStub
from dicast_gateway.errors import GatewayError, Kind, from_rpc, from_stream, gone, internal

Metadata = Sequence[tuple[str, str]]
Event = pb.Answer | pb.DecideSummary
_Response = TypeVar("_Response")

_MIB = 1024 * 1024
_READINESS_TIMEOUT_S = 2.0
_NO_KEY = (Kind.UNAUTHENTICATED, Kind.FORBIDDEN)
_CHANNEL_OPTIONS: list[tuple[str, Any]] = [
    # A body under the gateway's limit must reach the server, which refuses messages over 4 MiB by name.
    ("grpc.max_send_message_length", 8 * _MIB),
    # An answer repeats the names of the options with a number each: it may outgrow its request.
    ("grpc.max_receive_message_length", 16 * _MIB),
    # A server that comes back is found within two seconds.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # The server is next door: a proxy meant for the internet must not get the states.
    ("grpc.enable_http_proxy", 0),
]


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the server answers now.

    Attributes:
        status: "ready" or why not.
        model: the default model's id; None where the server does not say it without a key.
        reason: for people; empty where ready without a remark.
    """

    status: Literal["ready", "starting", "refused", "unreachable"]
    model: str | None = None
    reason: str = ""


class Engine:
    """Calls to a dicast server. Its failures come out as GatewayError."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._decisions = DecisionServiceStub(channel)
        self._models = ModelServiceStub(channel)
        self._health = health_pb2_grpc.HealthStub(channel)

    async def decide(
        self, request: service_pb.DecideRequest, timeout_s: float, metadata: Metadata, left: Awaitable[None]
    ) -> service_pb.DecideResponse:
        """Ask, and take the question back as soon as `left` is done: nobody waits for the answer then."""
        call = self._decisions.Decide(request, timeout=timeout_s, metadata=tuple(metadata))
        return await _answer(call, left)

    async def stream(
        self,
        request: service_pb.DecideRequest,
        timeout_s: float,
        metadata: Metadata,
        left: Awaitable[None],
        pause_s: float,
    ) -> AsyncGenerator[Event | None]:
        """Ask, and yield each answer as it is read, then the summary; None after every `pause_s` of silence.

        The next message is taken from the server when the next one is asked for. The question is taken back
        as soon as `left` is done, and when the generator is closed.
        """
        # The iterator's end closes the sending side.
        requests = iter([service_pb.StreamDecideRequest(id="1", request=request)])
        call = self._decisions.StreamDecide(requests, timeout=timeout_s, metadata=tuple(metadata))
        leaving = asyncio.ensure_future(left)
        reading = asyncio.ensure_future(_next(call))
        try:
            while True:
                await asyncio.wait({reading, leaving}, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
                if leaving.done():
                    raise gone()
                if not reading.done():
                    yield None
                    continue
                event = _event(reading.result())
                if isinstance(event, pb.DecideSummary):
                    # The call ends by itself now. Ended by us, the server's log would call it cancelled.
                    reading = asyncio.ensure_future(_next(call))
                    await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
                    yield event
                    return
                yield event
                reading = asyncio.ensure_future(_next(call))
        except grpc.aio.AioRpcError as error:
            raise from_rpc(error) from error
        finally:
            call.cancel()
            reading.cancel()
            leaving.cancel()
            await asyncio.gather(reading, leaving, return_exceptions=True)

    async def prewarm(
        self, request: service_pb.PrewarmRequest, timeout_s: float, metadata: Metadata, left: Awaitable[None]
    ) -> service_pb.PrewarmResponse:
        """Have a state read and kept, unless the client leaves."""
        call = self._decisions.Prewarm(request, timeout=timeout_s, metadata=tuple(metadata))
        return await _answer(call, left)

    async def admit(self, metadata: Metadata) -> None:
        """Return where the server takes calls with this metadata, or cannot say it now.

        Raises:
            GatewayError: it does not, for want of a key.
        """
        request = model_pb.GetModelRequest()
        try:
            await self._models.GetModel(request, timeout=_READINESS_TIMEOUT_S, metadata=tuple(metadata))
        except grpc.aio.AioRpcError as error:
            problem = from_rpc(error)
            if problem.kind in _NO_KEY:
                raise problem from error

    async def models(self, timeout_s: float, metadata: Metadata) -> Sequence[model_pb.Model]:
        """The models, the default one first."""
        request = model_pb.ListModelsRequest()
        try:
            response = await self._models.ListModels(request, timeout=timeout_s, metadata=tuple(metadata))
        except grpc.aio.AioRpcError as error:
            raise from_rpc(error) from error
        return response.models

    async def readiness(self, metadata: Metadata) -> Readiness:
        """Whether a decision would be answered now."""
        try:
            model = await self._default_model(metadata)
            serving = await self._serving()
        except GatewayError as problem:
            return _unready(problem)
        if model is not None and model.status != model_pb.Model.STATUS_READY:
            refused = model.status == model_pb.Model.STATUS_REFUSED
            return Readiness(
                "refused" if refused else "starting",
                model.id,
                model.status_message or ("The model is not served." if refused else "The model is loading."),
            )
        name = None if model is None else model.id
        if not serving:
            # The model is there, so it is the server that takes no calls: it drains, or its engine died.
            return Readiness("unreachable", name, "The server takes no requests: its health is not SERVING.")
        return Readiness("ready", name, "" if model is None else model.status_message)

    async def _default_model(self, metadata: Metadata) -> model_pb.Model | None:
        request = model_pb.GetModelRequest()
        try:
            response = await self._models.GetModel(
                request, timeout=_READINESS_TIMEOUT_S, metadata=tuple(metadata)
            )
        except grpc.aio.AioRpcError as error:
            problem = from_rpc(error)
            if problem.kind in _NO_KEY:
                # A probe carries no key. Health needs none.
                return None
            raise problem from error
        return response.model

    async def _serving(self) -> bool:
        request = health_pb2.HealthCheckRequest()
        try:
            response = await self._health.Check(request, timeout=_READINESS_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            raise from_rpc(error) from error
        return bool(response.status == health_pb2.HealthCheckResponse.SERVING)


@asynccontextmanager
async def connect(server: str) -> AsyncIterator[Engine]:
    """An engine behind a channel of its own. The server need not be up: the channel keeps trying."""
    async with grpc.aio.insecure_channel(server, options=_CHANNEL_OPTIONS) as channel:
        yield Engine(channel)


async def _answer(call: grpc.aio.UnaryUnaryCall[Any, _Response], left: Awaitable[None]) -> _Response:
    """The response of a call, which is taken back as soon as `left` is done."""
    answer = asyncio.ensure_future(_result(call))
    leaving = asyncio.ensure_future(left)
    try:
        await asyncio.wait({answer, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise gone()
        return answer.result()
    except grpc.aio.AioRpcError as error:
        raise from_rpc(error) from error
    finally:
        call.cancel()
        answer.cancel()
        leaving.cancel()
        await asyncio.gather(answer, leaving, return_exceptions=True)


async def _result(call: Awaitable[_Response]) -> _Response:
    return await call


async def _next(
    call: grpc.aio.StreamStreamCall[Any, service_pb.StreamDecideResponse],
) -> service_pb.StreamDecideResponse:
    """The next message; an empty one where the server ended the stream."""
    message: Any = await call.read()
    return service_pb.StreamDecideResponse() if message is grpc.aio.EOF else message


def _event(message: service_pb.StreamDecideResponse) -> Event:
    """What a message says. Raises GatewayError: the request failed, or its summary never came."""
    match message.WhichOneof("event"):
        case "answer":
            return message.answer
        case "summary":
            return message.summary
        case "error":
            raise from_stream(message.error)
        case _:
            raise internal()


def _unready(problem: GatewayError) -> Readiness:
    if problem.kind is Kind.STARTING:
        return Readiness("starting", None, problem.message)
    if problem.kind is Kind.MODEL_UNAVAILABLE:
        return Readiness("refused", None, problem.message)
    return Readiness("unreachable", None, problem.message)
