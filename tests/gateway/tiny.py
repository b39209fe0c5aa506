"""The real gateway in front of the real server around a tiny random model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
from gateway.served import Loop, http_served
from tiny_server import Forwards, Running, serving

from dicast import Client


@dataclass(frozen=True)
class Tiny:
    """Both ways to ask the same engine."""

    running: Running
    grpc: Client
    http: httpx.Client

    @property
    def forwards(self) -> Forwards:
        """What stands before the engine's forwards."""
        return self.running.gate

    def answers(self, route: str, body: dict[str, Any]) -> Any:
        """The answers to a request that must succeed."""
        reply = self.http.post(route, json=body)
        assert reply.status_code == 200, reply.text
        return reply.json()["answers"]


@contextlib.contextmanager
def tiny_served(loop: Loop, **settings: Any) -> Iterator[Tiny]:
    """`settings` are those of `serving`."""
    with (
        loop.entered(serving(**settings)) as running,
        loop.entered(http_served(int(running.address.rpartition(":")[2]))) as url,
        Client(running.address) as grpc,
        httpx.Client(base_url=url, timeout=60, trust_env=False) as http,
    ):
        yield Tiny(running, grpc, http)
