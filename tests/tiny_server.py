"""A real gRPC server around a tiny random model, whose forwards a test can hold and count."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import grpc
import mlx.core as mx
import pytest
import tiny_models
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1.decision_service_pb2_grpc import DecisionServiceStub
from dicast.v1.model_service_pb2_grpc import ModelServiceStub
from dicast_server import blas
from dicast_server.engine.head import LabelScores
from dicast_server.engine.machinery import machinery
from dicast_server.engine.reader import Reader
from dicast_server.engine.store import PrefixStore
from dicast_server.models.frames import Frames
from dicast_server.models.load import LoadedModel
from dicast_server.readouts.letters import LETTERS
from dicast_server.readouts.pooled import NAME as POOLED
from dicast_server.readouts.pooled_head import PooledHead
from dicast_server.readouts.profile import STOCK, Profile
from dicast_server.service.adapter_loading import AdapterPlace
from dicast_server.service.calibrating import CalibrationSource
from dicast_server.service.calls import Deadlines
from dicast_server.service.catalogue import Catalogue
from dicast_server.service.host import Host
from dicast_server.service.keys import Keys
from dicast_server.service.limits import Limits
from dicast_server.service.loading import Served
from dicast_server.service.registry import Registry
from dicast_server.service.server import Address, Server

if TYPE_CHECKING:  # the generated stubs know it, the generated code does not
    from dicast.v1.decision_service_pb2_grpc import DecisionServiceAsyncStub
    from dicast.v1.model_service_pb2_grpc import ModelServiceAsyncStub

REGISTRY = Registry.installed()
PATIENCE_S = 30
CONTEXT = 2048
WEIGHTS_HASH = "a" * 64
STORE_BYTES = 64 * 1024 * 1024


@dataclass
class Forwards:
    """Stands before a head: counts forwards, holds them at a gate, spoils what they say."""

    head: Any
    count: int = 0
    spoil: Callable[[LabelScores], LabelScores] | None = None
    fault: BaseException | None = None
    _reached: threading.Event = field(default_factory=threading.Event)
    _open: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._open.set()

    @property
    def path(self) -> str:
        return str(self.head.path)

    @property
    def pads(self) -> bool:
        return bool(self.head.pads)

    def hold(self) -> None:
        """Stop the engine at its next forward."""
        self._reached.clear()
        self._open.clear()

    async def reached(self) -> None:
        """Wait until the engine stands at the gate."""
        assert await asyncio.to_thread(self._reached.wait, PATIENCE_S)

    def release(self) -> None:
        self._open.set()

    def forward(
        self,
        rows: Sequence[Sequence[int]],
        caches: Sequence[Any],
        at: Sequence[tuple[int, int]] | None = None,
    ) -> mx.array:
        self._reached.set()
        self._open.wait(PATIENCE_S)
        self.count += 1
        if self.fault is not None:
            raise self.fault
        output: mx.array = self.head.forward(rows, caches, at)
        return output

    def read(self, last: mx.array, labels: Sequence[Sequence[int]]) -> list[LabelScores]:
        scores: list[LabelScores] = self.head.read(last, labels)
        return [self.spoil(score) for score in scores] if self.spoil else scores

    def log_probabilities(self, picked: mx.array, tokens: Sequence[Sequence[int]]) -> list[list[float]]:
        values: list[list[float]] = self.head.log_probabilities(picked, tokens)
        return values


def tiny_llama(**more: Any) -> Any:
    """A random llama of two layers for a byte-level tokenizer."""
    more = {"max_position_embeddings": CONTEXT, "rope_theta": 10000.0, **more}
    return tiny_models.model(tiny_models.config("llama", 272, **more))


def load_tiny(
    profile: Profile = STOCK,
    tokenizer: Any = None,
    work_bytes: int | None = None,
    model: Any = None,
    context: int = CONTEXT,
    head: PooledHead | None = None,
) -> Served:
    """Serve a random llama, or another model, with a byte-level tokenizer; with a head by that alone."""
    frames = Frames.from_tokenizer(tokenizer or tiny_models.qwen_like())
    found = frames.of().label_ids(LETTERS)
    model = model or tiny_llama()
    store = PrefixStore(STORE_BYTES, time.monotonic)
    reader = Reader(model, list(found.values())[:8], 128, store, pools=head is not None)
    loaded = LoadedModel("tiny", "llama", model, frames, context, 1000, WEIGHTS_HASH, "float32", "tiny")
    if head is not None:
        profile = replace(profile, readout=POOLED)
    machine = machinery(reader, blas.ensure())
    return Served(reader, loaded, machine, profile, found, work_bytes, head=head)


@dataclass
class Running:
    """A server that listens, and the ways to reach it."""

    address: str
    host: Host
    server: Server
    channel: grpc.aio.Channel
    forwards: Forwards | None

    @property
    def decisions(self) -> "DecisionServiceAsyncStub":
        return DecisionServiceStub(self.channel)

    @property
    def models(self) -> "ModelServiceAsyncStub":
        return ModelServiceStub(self.channel)

    @property
    def gate(self) -> Forwards:
        assert self.forwards is not None
        return self.forwards


@asynccontextmanager
async def serving(
    load: Callable[[], Served] = load_tiny,
    *,
    wait: bool = True,
    limits: Limits | None = None,
    deadlines: Deadlines | None = None,
    least_option_mass: float = 0.0,
    drain_s: float = 5.0,
    keys: Keys | None = None,
    registry: Registry = REGISTRY,
    calibration: CalibrationSource | None = None,
    default: AdapterPlace | None = None,
) -> AsyncIterator[Running]:
    """Serve a tiny model on a free port of the loopback."""
    limits = limits or Limits()
    host = Host(
        load,
        registry,
        in_flight=limits.in_flight,
        least_option_mass=least_option_mass,
        calibration=calibration,
        default=default,
    )
    server = Server(
        host, Catalogue(host, "/models/tiny"), limits, deadlines or Deadlines(), drain_s, keys=keys
    )
    port = await server.listen(Address("127.0.0.1", 0))
    address = f"127.0.0.1:{port}"
    forwards: Forwards | None = None
    if wait:
        await server.make_ready()
        if host.served is not None:
            reader = host.served.reader
            forwards = Forwards(reader.head)
            reader.head = forwards  # type: ignore[assignment]
    async with grpc.aio.insecure_channel(address) as channel:
        try:
            yield Running(address, host, server, channel, forwards)
        finally:
            if forwards is not None:
                forwards.release()
            await server.drain()


def text(value: str) -> pb.Content:
    return pb.Content(text=value)


def json(value: str) -> pb.Content:
    return pb.Content(json=value)


def predicate(key: str = "p", instructions: str = "Is it?") -> pb.Question:
    return pb.Question(key=key, instructions=text(instructions), predicate=pb.Predicate())


def choice(key: str = "c", values: Sequence[str | bool] = ("a", "b", "c"), **fields: Any) -> pb.Question:
    options = [
        pb.Option(
            value=pb.OptionValue(bool_value=value)
            if isinstance(value, bool)
            else pb.OptionValue(string_value=value)
        )
        for value in values
    ]
    return pb.Question(key=key, instructions=text("Which?"), choice=pb.Choice(options=options), **fields)


def score(key: str = "s", labels: Sequence[str] = ("low", "mid", "high")) -> pb.Question:
    levels = [pb.Level(label=label) for label in labels]
    return pb.Question(key=key, instructions=text("How much?"), score=pb.Score(levels=levels))


def request(
    *questions: pb.Question, state: str = "The door is open.", **options: Any
) -> service_pb.DecideRequest:
    return service_pb.DecideRequest(
        state=pb.State(text=state),
        questions=questions or (predicate(), choice(), score()),
        options=pb.DecideOptions(**options),
    )


async def idle(running: Running) -> None:
    """Wait until the engine has nothing to do."""
    async with asyncio.timeout(PATIENCE_S):
        while running.host.engine.load:
            await asyncio.sleep(0.001)


async def refusal(call: Any) -> tuple[grpc.StatusCode, error_details_pb2.ErrorInfo, list[Any]]:
    """The status of a call that fails, its ErrorInfo, and its other details."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    status = rpc_status.from_call(caught.value)
    assert status is not None
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "dicast"
    return caught.value.code(), info, list(status.details[1:])


async def health(running: Running, service: str = "") -> int:
    stub = health_pb2_grpc.HealthStub(running.channel)
    return int((await stub.Check(health_pb2.HealthCheckRequest(service=service))).status)
