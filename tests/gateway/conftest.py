"""One gateway and one scripted server for all tests; every test starts with a fresh script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx
import pytest
from _pytest.nodeid import coerce_node_id
from gateway.served import Loop, ScriptedServer, grpc_served, http_served

if TYPE_CHECKING:
    from gateway.tiny import Tiny


@pytest.fixture(scope="session")
def loop() -> Iterator[Loop]:
    running = Loop()
    yield running
    running.close()


@pytest.fixture(scope="session")
def _served(loop: Loop) -> Iterator[tuple[ScriptedServer, str]]:
    server = ScriptedServer()
    with loop.entered(grpc_served(server)) as port, loop.entered(http_served(port)) as url:
        yield server, url


@pytest.fixture
def server(_served: tuple[ScriptedServer, str]) -> ScriptedServer:
    _served[0].reset()
    return _served[0]


@pytest.fixture
def url(_served: tuple[ScriptedServer, str], server: ScriptedServer) -> str:
    return _served[1]


@pytest.fixture
def http(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
        yield client


@pytest.fixture(scope="module")
def tiny(loop: Loop) -> Iterator[Tiny]:
    """The gateway in front of a real engine around a tiny random model."""
    # Only the tests that ask it wait for MLX.
    from gateway.tiny import tiny_served

    with tiny_served(loop) as served:
        yield served


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests that schemathesis makes ids of their own: each operation's is its function's alone.

    Those who run tests side by side run an id once.
    """
    for item in items:
        if item.parent is not None and not item.nodeid.endswith(item.name):
            # pytest has no public way to do so.
            item._id = coerce_node_id(f"{item.parent.nodeid}::{item.name}")
