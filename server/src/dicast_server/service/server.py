"""The gRPC server: services, health, reflection, and how it starts and drains."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from dataclasses import dataclass

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from dicast.v1 import decision_service_pb2, model_service_pb2
from dicast.v1.decision_service_pb2_grpc import add_DecisionServiceServicer_to_server
from dicast.v1.model_service_pb2_grpc import add_ModelServiceServicer_to_server
from dicast_server.service.adapters import Adapters
from dicast_server.service.calls import Deadlines
from dicast_server.service.catalogue import Catalogue, ModelServicer
from dicast_server.service.decide import DecisionServicer
from dicast_server.service.host import Host, Status
from dicast_server.service.keys import Callers, Keys
from dicast_server.service.limits import Limits
from dicast_server.service.malformed import MalformedMessages

log = logging.getLogger(__name__)

DECISION_SERVICE = decision_service_pb2.DESCRIPTOR.services_by_name["DecisionService"].full_name
MODEL_SERVICE = model_service_pb2.DESCRIPTOR.services_by_name["ModelService"].full_name
_MESSAGE_SLACK = 64 * 1024
_LAST_WORDS_S = 1.0


class PortTakenError(Exception):
    """The address cannot be bound."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; port 0 picks a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Server:
    """A gRPC server around one model's host."""

    def __init__(
        self,
        host: Host,
        catalogue: Catalogue,
        limits: Limits,
        deadlines: Deadlines,
        drain_s: float = 30.0,
        *,
        keys: Keys | None = None,
        adapters: Adapters | None = None,
    ) -> None:
        """`keys` are those that callers need; without them everybody may call.

        `adapters` keeps those of a folder while the model is served.
        """
        callers = Callers(keys)
        self._host = host
        self._drain_s = drain_s
        self._adapters = adapters
        self._watching: asyncio.Task[None] | None = None
        self._health = health.aio.HealthServicer()
        self._server = grpc.aio.server(interceptors=[MalformedMessages()], options=_options(limits))
        add_DecisionServiceServicer_to_server(
            DecisionServicer(catalogue, limits, deadlines, callers), self._server
        )
        add_ModelServiceServicer_to_server(ModelServicer(catalogue, limits, callers), self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (DECISION_SERVICE, MODEL_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)

    async def listen(self, address: Address) -> int:
        """Bind and accept calls, which are refused until the model is ready. Returns the port.

        Raises:
            PortTakenError: the address cannot be bound.
        """
        await self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        _check_free(address)
        try:
            port = self._server.add_insecure_port(str(address))
        except RuntimeError as error:
            raise PortTakenError(f"cannot listen on {address}") from error
        await self._server.start()
        return port

    async def make_ready(self) -> Status:
        """Load and check the model; health follows. Its adapters are loaded while it is served."""
        await self._host.start()
        if self._host.status is Status.READY:
            if self._adapters is not None:
                # Listed before anybody asks for one: then it starts, and is not unknown.
                with contextlib.suppress(OSError):
                    await self._adapters.look()
                self._watching = asyncio.create_task(self._adapters.watch())
            await self._set_health(health_pb2.HealthCheckResponse.SERVING)
        return self._host.status

    async def drain(self) -> None:
        """Refuse new requests, finish those in flight for a while, end."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if self._host.engine_died.is_set():
            # Nothing can finish; what waits needs a moment to say so.
            await self._health.enter_graceful_shutdown()
            await self._server.stop(_LAST_WORDS_S)
            return
        self._host.draining = True
        await self._health.enter_graceful_shutdown()
        started = time.monotonic()
        # The server listens meanwhile, so that callers hear why they are refused.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._drain_s):
                await self._host.idle()
        await self._server.stop(max(0.0, started + self._drain_s - time.monotonic()))
        await asyncio.to_thread(self._host.close)

    async def _set_health(self, status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
        for service in ("", DECISION_SERVICE, MODEL_SERVICE):
            await self._health.set(service, status)


def _check_free(address: Address) -> None:
    """Find a taken port by ourselves: gRPC would write its source lines to stderr."""
    try:
        family, *_, where = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        raise PortTakenError(
            f"cannot listen on {address} ({error.strerror}); choose another with "
            "--grpc-port, or 0 for a free one"
        ) from error


def _options(limits: Limits) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", limits.message_bytes),
        ("grpc.max_send_message_length", limits.message_bytes + _MESSAGE_SLACK),
        # A second server on one port would take half of the calls in silence.
        ("grpc.so_reuseport", 0),
        # Clients may ping every ten seconds, also while no call is open: a long prefill is no reason to
        # drop their connection.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
        ("grpc.http2.max_ping_strikes", 0),
    ]
