"""A server in this process on a loopback port, so that a model is asked in the very way that it is served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from dicast_server.evaluation.source import SourceLost
from dicast_server.evaluation.system import Known
from dicast_server.service.adapter_loading import AdapterPlace
from dicast_server.service.calls import Deadlines
from dicast_server.service.catalogue import Catalogue
from dicast_server.service.host import Host, Status
from dicast_server.service.limits import Limits
from dicast_server.service.loading import Served
from dicast_server.service.registry import Registry
from dicast_server.service.server import Address, Server


@asynccontextmanager
async def served_here(
    load: Callable[[], Served],
    registry: Registry,
    source: str,
    least_option_mass: float,
    default: AdapterPlace | None = None,
) -> AsyncIterator[tuple[str, Known]]:
    """The address of a server that is ready, and what is known of its model.

    `default` is the adapter that answers in the model's place.

    Raises:
        SourceLost: the model is refused; the message says why.
    """
    limits = Limits()
    host = Host(
        load, registry, in_flight=limits.in_flight, least_option_mass=least_option_mass, default=default
    )
    server = Server(host, Catalogue(host, source), limits, Deadlines(), drain_s=0.0)
    # Of its own requests it has no need to tell; the level is the whole process's, and is given back.
    log = logging.getLogger("dicast_server")
    level = log.level
    log.setLevel(logging.ERROR)
    # Neither may be left half done: not the start of the server, nor a load, which cannot be told to stop.
    listening = asyncio.create_task(server.listen(Address("127.0.0.1", 0)))
    ready = asyncio.create_task(_made_ready(server, listening))
    try:
        status = await asyncio.shield(ready)
        served = host.default.served
        if status is not Status.READY or served is None:
            raise SourceLost(f"the model is not served: {host.status_message}")
        known = Known(served.model.weights_hash, served.profile)
        yield f"127.0.0.1:{await listening}", known
    finally:
        log.setLevel(level)
        await ready
        await server.drain()


async def _made_ready(server: Server, listening: asyncio.Task[int]) -> Status:
    await listening
    return await server.make_ready()
