"""A server that is still starting is waited for, as long as it was said and no longer."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from dataclasses import replace

import grpc
import pytest
from tiny_server import serving

from dicast import AsyncClient, Model, Unauthenticated, Unavailable
from dicast_server.cli.waiting import Waiting
from dicast_server.evaluation.grpc_source import GrpcSource
from dicast_server.evaluation.readiness import UNREACHABLE_S, ready_model
from dicast_server.evaluation.source import SourceLost
from dicast_server.evaluation.system import Asking


class Scripted:
    """Tells of its model what it is told to, the last of it for ever."""

    def __init__(self, *outcomes: Model | Exception) -> None:
        self.outcomes: Sequence[Model | Exception] = outcomes
        self.calls = 0

    async def model(self, name: str = "", /) -> Model:
        outcome = self.outcomes[min(self.calls, len(self.outcomes) - 1)]
        self.calls += 1
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@pytest.fixture
async def ready() -> Model:
    async with serving() as running, AsyncClient(running.address) as client:
        return await client.model()


def gone(reason: str = "") -> Unavailable:
    return Unavailable("gone", code=grpc.StatusCode.UNAVAILABLE, reason=reason)


async def test_a_server_that_starts_is_waited_for(ready: Model) -> None:
    starting = replace(ready, status="starting", status_message="loading")
    counting = replace(ready, status="starting", status_message="calibrating 3 of 9")
    told: list[str] = []
    client = Scripted(gone(), starting, counting, ready)
    assert await ready_model(client, "", 60.0, told.append, pause_s=0.0) is ready
    assert told == [
        "no dicast server answers there",
        "the model is not ready: loading",
        "the model is not ready: calibrating 3 of 9",
    ]


@pytest.mark.parametrize(("wait_s", "said"), [(0.0, "loading$"), (5.0, "loading, after 5 s of waiting$")])
async def test_and_no_longer_than_was_said(wait_s: float, said: str, ready: Model) -> None:
    starting = Scripted(replace(ready, status="starting", status_message="loading"))
    told: list[str] = []
    with pytest.raises(SourceLost, match=said):
        # One pause alone would take longer.
        await ready_model(starting, "", wait_s, told.append, pause_s=6.0)
    assert told == []
    with pytest.raises(SourceLost, match=f"no dicast server answers there, after {UNREACHABLE_S:g} s"):
        await ready_model(Scripted(gone()), "", 1000.0, told.append, pause_s=UNREACHABLE_S + 1)


async def test_what_will_not_change_is_not_waited_for(ready: Model) -> None:
    refused = replace(ready, status="refused", status_message="too little option mass")
    with pytest.raises(SourceLost, match="the model is not ready: too little option mass"):
        await ready_model(Scripted(refused), "", 60.0, pytest.fail)
    with pytest.raises(Unavailable):
        await ready_model(Scripted(gone("DRAINING")), "", 60.0, pytest.fail)
    keys = Unauthenticated("no key", code=grpc.StatusCode.UNAUTHENTICATED)
    with pytest.raises(Unauthenticated):
        await ready_model(Scripted(keys), "", 60.0, pytest.fail)


async def test_a_real_server_is_asked_once_it_is_ready() -> None:
    async with serving(wait=False) as running, AsyncClient(running.address) as client:
        tasks: list[asyncio.Task[object]] = []

        def told(state: str) -> None:
            # It becomes ready only once somebody waits.
            if not tasks:
                tasks.append(asyncio.create_task(running.server.make_ready()))

        source = await GrpcSource.connect(client, running.address, Asking(), None, wait_s=60.0, told=told)
        await tasks[0]
    assert source.model.status == "ready"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_the_latest_and_a_log_the_first() -> None:
    terminal, log = Terminal(), io.StringIO()
    for stream in (terminal, log):
        with Waiting("here:1", stream) as told:
            told("loading\nslowly")
            told("calibrating 1 of 9" + "." * 500)
    shown = terminal.getvalue().split("\r\x1b[K")
    assert shown[1] == "waiting for here:1: loading slowly"
    assert shown[2].startswith("waiting for here:1: calibrating 1 of 9..") and len(shown[2]) < 500
    assert shown[3] == ""
    assert log.getvalue() == "waiting for here:1: loading slowly\n"
    ready_at_once = Terminal()
    with Waiting("here:1", ready_at_once):
        pass
    assert ready_at_once.getvalue() == ""
