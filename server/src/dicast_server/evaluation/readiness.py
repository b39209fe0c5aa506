"""Waiting for a server that has only just been started, within a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from dicast import Model, Unavailable
from dicast_server.evaluation.source import SourceLost

UNREACHABLE_S = 10.0
"""How long nothing may listen at an address: a process that starts listens soon, a wrong address never."""

PAUSE_S = 0.5


class Described(Protocol):
    """What tells of its model: a client of a server."""

    async def model(self, name: str = "", /) -> Model:
        """The model of a name, ready or not; by default the default one. Raises DicastError."""
        ...


async def ready_model(
    client: Described, name: str, wait_s: float, told: Callable[[str], object], pause_s: float = PAUSE_S
) -> Model:
    """The model of a name once it is ready, after `wait_s` seconds at most; `told` hears what is waited for.

    Raises:
        SourceLost: it is refused, or not ready in time; nothing listens for UNREACHABLE_S seconds.
        DicastError: the server answers, and does not tell of its model.
    """
    now = asyncio.get_running_loop().time
    begun = now()
    while True:
        try:
            model = await client.model(name)
        except Unavailable as error:
            # With a reason it is the server's own word, and more than that it is not there yet.
            if error.reason:
                raise
            state, allowed = "no dicast server answers there", min(wait_s, UNREACHABLE_S)
        else:
            if model.status == "ready":
                return model
            state, allowed = f"the model is not ready: {model.status_message or model.status}", wait_s
            if model.status != "starting":
                raise SourceLost(state)
        if now() - begun + pause_s > allowed:
            waited = f", after {allowed:g} s of waiting" if allowed else ""
            raise SourceLost(f"{state}{waited}")
        told(state)
        await asyncio.sleep(pause_s)
