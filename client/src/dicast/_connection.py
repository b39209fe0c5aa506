"""How a client reaches its server: address, keys, deadlines, retries."""

from __future__ import annotations

import enum
import json
import math
from dataclasses import dataclass, field
from typing import TypeAlias

import grpc

DEFAULT_TARGET = "127.0.0.1:50051"
DEFAULT_TIMEOUT_S = 60.0

# The server takes 4 MiB of a request; the slack lets its own refusal, with a field path, be the answer.
_MESSAGE_BYTES = 4 * 1024 * 1024 + 64 * 1024
_LOOPBACK = ("127.", "localhost:", "[::1]:", "dns:///localhost:", "ipv4:127.", "ipv6:[::1]", "unix:")


class Inherit(enum.Enum):
    """The default of a call's own `timeout_s`: the client's."""

    FROM_CLIENT = "the client's"

    def __repr__(self) -> str:
        return "FROM_CLIENT"


FROM_CLIENT = Inherit.FROM_CLIENT
Timeout: TypeAlias = "float | Inherit | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """What both clients are made from. Not for use outside of this package."""

    target: str
    api_key: str | None = field(repr=False)
    tenant: str | None
    timeout_s: float | None
    retries: bool
    credentials: grpc.ChannelCredentials | None = field(repr=False)

    def __post_init__(self) -> None:
        if not self.target:
            raise ValueError("target: an address such as 127.0.0.1:50051 is needed")
        for name, value in (("api_key", self.api_key), ("tenant", self.tenant)):
            if value is not None:
                _check_header(name, value)
        self.deadline_s(self.timeout_s)

    def describe(self, kind: str) -> str:
        """The repr of a client: everything but secrets."""
        shown = [repr(self.target)]
        if self.api_key is not None:
            shown.append("api_key=***")
        if self.tenant is not None:
            shown.append(f"tenant={self.tenant!r}")
        shown.append(f"timeout_s={self.timeout_s}")
        return f"{kind}({', '.join(shown)})"

    def channel_options(self) -> list[tuple[str, str | int]]:
        """Options of the gRPC channel."""
        config: dict[str, object] = {"loadBalancingConfig": [{"round_robin": {}}]}
        if self.retries:
            # Only UNAVAILABLE: nothing was computed. A full queue (RESOURCE_EXHAUSTED) says itself when to
            # try again, and three blind attempts from every caller would keep it full.
            services = ("dicast.v1.DecisionService", "dicast.v1.ModelService")
            config["methodConfig"] = [
                {
                    "name": [{"service": service} for service in services],
                    "retryPolicy": {
                        "maxAttempts": 3,
                        "initialBackoff": "0.1s",
                        "maxBackoff": "2s",
                        "backoffMultiplier": 4,
                        "retryableStatusCodes": ["UNAVAILABLE"],
                    },
                }
            ]
        options: list[tuple[str, str | int]] = [
            ("grpc.service_config", json.dumps(config)),
            ("grpc.enable_retries", int(self.retries)),
            ("grpc.max_send_message_length", _MESSAGE_BYTES),
            ("grpc.max_receive_message_length", _MESSAGE_BYTES),
            # A request past gRPC's 256 KiB would not be kept for a second attempt.
            ("grpc.per_rpc_retry_buffer_size", _MESSAGE_BYTES),
        ]
        if self.target.startswith(_LOOPBACK):
            options.append(("grpc.enable_http_proxy", 0))
        return options

    def metadata(self, request_id: str) -> tuple[tuple[str, str], ...]:
        """Metadata of a call."""
        pairs = []
        if self.api_key is not None:
            pairs.append(("authorization", f"Bearer {self.api_key}"))
        if self.tenant is not None:
            pairs.append(("x-dicast-tenant", self.tenant))
        if request_id:
            _check_header("request_id", request_id)
            pairs.append(("x-request-id", request_id))
        return tuple(pairs)

    def deadline_s(self, timeout_s: Timeout) -> float | None:
        """Seconds that a call may take; None is no limit on this side."""
        if isinstance(timeout_s, Inherit):
            return self.timeout_s
        if timeout_s is None:
            return None
        if not timeout_s > 0 or math.isinf(timeout_s):
            raise ValueError(f"timeout_s: {timeout_s} is no number of seconds; None means no limit")
        return timeout_s


def _check_header(name: str, value: str) -> None:
    # The value is not shown: it may be a key.
    if not value or not value.isascii() or not value.isprintable():
        raise ValueError(f"{name}: printable ASCII characters are needed")
