"""Fixtures of the client's tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from client.fake_service import FakeService, serve


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own settings do not reach a test."""
    for name in list(os.environ):
        if name.startswith("DICAST_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def fake() -> Iterator[FakeService]:
    """A scripted server that listens."""
    service = FakeService()
    server = serve(service)
    yield service
    server.stop(0).wait()
