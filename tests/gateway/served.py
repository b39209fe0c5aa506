"""The real gateway on a real HTTP server, in front of a dicast server that answers from a script."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import grpc
import uvicorn
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import error_pb2
from dicast.v1 import model_service_pb2 as model_pb
from dicast.v1.decision_service_pb2_grpc import (
    DecisionServiceServicer,
    add_DecisionServiceServicer_to_server,
)
from dicast.v1.model_service_pb2_grpc import ModelServiceServicer, add_ModelServiceServicer_to_server
from dicast_gateway.cli import uvicorn_config
from dicast_gateway.config import Settings

Script = Callable[
    [service_pb.DecideRequest, grpc.aio.ServicerContext[Any, Any]], Awaitable[service_pb.DecideResponse]
]
StreamScript = Callable[
    [service_pb.DecideRequest, grpc.aio.ServicerContext[Any, Any]],
    AsyncIterator[pb.Answer | pb.DecideSummary | error_pb2.DecideError],
]

MODEL = model_pb.Model(
    id="smollm2-135m-instruct",
    aliases=["jev-latest", "jev-preview"],
    description="a small model",
    status=model_pb.Model.STATUS_READY,
    loaded_at=Timestamp(seconds=1_790_000_000),
)


class ScriptedServer(DecisionServiceServicer, ModelServiceServicer):
    """Records every request and answers as `script` says."""

    def __init__(self) -> None:
        self.address = ""
        self.health = health.aio.HealthServicer()
        self.reset()

    def reset(self) -> None:
        self.requests: list[service_pb.DecideRequest] = []
        self.metadata: list[dict[str, str | bytes]] = []
        self.deadlines: list[float] = []
        self.entered = threading.Event()
        self.cancelled = threading.Event()
        self.script: Script = uniform
        self.stream_script: StreamScript = self.as_decided
        self.models = [MODEL]
        self.model_failure: status_pb2.Status | None = None

    async def Decide(self, request: service_pb.DecideRequest, context: Any) -> service_pb.DecideResponse:  # noqa: N802
        self._record(request, context)
        try:
            return await self.script(request, context)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def ListModels(self, request: Any, context: Any) -> model_pb.ListModelsResponse:  # noqa: N802
        return model_pb.ListModelsResponse(models=self.models)

    async def GetModel(self, request: Any, context: Any) -> model_pb.GetModelResponse:  # noqa: N802
        if self.model_failure is not None:
            await context.abort_with_status(rpc_status.to_status(self.model_failure))
        return model_pb.GetModelResponse(model=self.models[0])

    async def StreamDecide(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        try:
            # Everything is read before anything is said: it ends only where the sender closes its side.
            items = [item async for item in request_iterator]
            for item in items:
                self._record(item.request, context)
                async for event in self.stream_script(item.request, context):
                    match event:
                        case pb.Answer():
                            yield service_pb.StreamDecideResponse(id=item.id, answer=event)
                        case pb.DecideSummary():
                            yield service_pb.StreamDecideResponse(id=item.id, summary=event)
                        case error_pb2.DecideError():
                            yield service_pb.StreamDecideResponse(id=item.id, error=event)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def as_decided(
        self, request: service_pb.DecideRequest, context: Any
    ) -> AsyncIterator[pb.Answer | pb.DecideSummary]:
        """What `script` says, answer by answer."""
        response = await self.script(request, context)
        for answer in response.answers:
            yield answer
        yield response.summary

    def _record(self, request: service_pb.DecideRequest, context: Any) -> None:
        self.requests.append(request)
        self.metadata.append({key: value for key, value in context.invocation_metadata()})
        self.deadlines.append(context.time_remaining())
        self.entered.set()

    def Prewarm(self, request: Any, context: Any) -> Any:  # noqa: N802
        raise NotImplementedError

    async def set_serving(self, serving: bool) -> None:
        reply = health_pb2.HealthCheckResponse
        await self.health.set("", reply.SERVING if serving else reply.NOT_SERVING)


async def uniform(request: service_pb.DecideRequest, context: Any) -> service_pb.DecideResponse:
    """Every option as probable as any other."""
    return service_pb.DecideResponse(
        answers=[
            _answer(index, question)
            for index, question in enumerate(request.questions)
            if not request.ask or question.key in request.ask
        ],
        summary=summary(),
    )


async def forever(request: service_pb.DecideRequest, context: Any) -> service_pb.DecideResponse:
    """Computes until it is stopped."""
    await asyncio.Event().wait()
    raise AssertionError


def answering(*answers: pb.Answer, usage: pb.Usage | None = None) -> Script:
    """These very answers, to the questions in their order."""

    async def script(request: service_pb.DecideRequest, context: Any) -> service_pb.DecideResponse:
        response = service_pb.DecideResponse(answers=answers, summary=summary(usage))
        for index, answer in enumerate(response.answers):
            answer.index = index
        return response

    return script


def failing(
    code: grpc.StatusCode,
    message: str,
    reason: str | None,
    fields: dict[str, str] | None = None,
    *,
    retry_s: float | None = None,
    domain: str = "dicast",
) -> Script:
    """A status as the server sends it."""

    async def script(request: service_pb.DecideRequest, context: Any) -> service_pb.DecideResponse:
        if reason is None:
            await context.abort(code, message)
        await context.abort_with_status(
            rpc_status.to_status(status(code, message, reason, fields, retry_s=retry_s, domain=domain))
        )
        raise AssertionError

    return script


def status(
    code: grpc.StatusCode,
    message: str,
    reason: str | None,
    fields: dict[str, str] | None = None,
    *,
    retry_s: float | None = None,
    domain: str = "dicast",
) -> status_pb2.Status:
    """A google.rpc.Status with our details."""
    found = status_pb2.Status(code=code.value[0], message=message)
    if reason is not None:
        found.details.add().Pack(error_details_pb2.ErrorInfo(domain=domain, reason=reason))
    if fields:
        violation = error_details_pb2.BadRequest.FieldViolation
        violations = [violation(field=field, description=text) for field, text in fields.items()]
        found.details.add().Pack(error_details_pb2.BadRequest(field_violations=violations))
    if retry_s is not None:
        delay = Duration(seconds=int(retry_s), nanos=int(retry_s % 1 * 1e9))
        found.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    return found


def summary(usage: pb.Usage | None = None) -> pb.DecideSummary:
    return pb.DecideSummary(
        model=MODEL.id,
        usage=usage or pb.Usage(input_tokens=30, cached_tokens=10, computed_tokens=20),
        request_id="r",
    )


def _answer(index: int, question: pb.Question) -> pb.Answer:
    answer = pb.Answer(index=index, key=question.key)
    if question.HasField("name"):
        answer.name = question.name
    match question.WhichOneof("type"):
        case "predicate":
            answer.predicate.probability = 0.5
        case "choice":
            options = question.choice.options
            for option in options:
                answer.choice.probabilities.add(value=option.value, probability=1 / len(options))
            answer.choice.value.CopyFrom(options[0].value)
        case "score":
            levels = question.score.levels
            answer.score.score = (len(levels) - 1) / 2
            for place, level in enumerate(levels):
                given = level.label if level.HasField("label") else None
                answer.score.probabilities.add(level=place, label=given, probability=1 / len(levels))
        case "extension":
            answer.extension.name = question.extension.type
            answer.extension.json = '{"said": 1.50}'
    return answer


class Loop:
    """An event loop in a thread of its own, for servers that the tests talk to over sockets."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=30)

    @contextlib.contextmanager
    def entered(self, context: contextlib.AbstractAsyncContextManager[Any]) -> Iterator[Any]:
        # Entered and left in one task, as an async generator's cancel scopes want it.
        stop = asyncio.Event()
        inside = threading.Event()
        value: list[Any] = []

        async def hold() -> None:
            async with context as found:
                value.append(found)
                inside.set()
                await stop.wait()

        task = asyncio.run_coroutine_threadsafe(hold(), self._loop)
        while not inside.wait(0.05):
            if task.done():
                task.result()
        try:
            yield value[0]
        finally:
            self._loop.call_soon_threadsafe(stop.set)
            task.result(timeout=30)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=30)
        self._loop.close()


@contextlib.asynccontextmanager
async def grpc_served(server: ScriptedServer, port: int = 0) -> AsyncIterator[int]:
    """The scripted server on loopback; the value is its port."""
    grpc_server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    add_DecisionServiceServicer_to_server(server, grpc_server)
    add_ModelServiceServicer_to_server(server, grpc_server)
    health_pb2_grpc.add_HealthServicer_to_server(server.health, grpc_server)
    bound = grpc_server.add_insecure_port(f"127.0.0.1:{port}")
    server.address = f"127.0.0.1:{bound}"
    await server.set_serving(True)
    await grpc_server.start()
    try:
        yield bound
    finally:
        await grpc_server.stop(None)


class _Server(uvicorn.Server):
    """Leaves the signals to pytest and stops without a poll."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()
        self.stop = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.stop.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def http_served(server_port: int, *, drain_s: int = 25, **settings: Any) -> AsyncIterator[str]:
    """The gateway on loopback; the value is its base URL."""
    config = uvicorn_config(Settings(server=f"127.0.0.1:{server_port}", **settings))
    config.timeout_graceful_shutdown = drain_s
    listener = socket.create_server(("127.0.0.1", 0))
    server = _Server(config)
    task = asyncio.ensure_future(server.serve(sockets=[listener]))
    await server.up.wait()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.stop.set()
        await task


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
