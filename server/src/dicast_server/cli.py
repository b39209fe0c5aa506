"""`dicast serve`: the engine behind gRPC, until a signal drains it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from pathlib import Path

from pydantic import ValidationError
from pydantic_settings import CliApp, CliSettingsSource, SettingsError

from dicast_server import blas, caches
from dicast_server.config import Settings
from dicast_server.engine import ENGINE_THREAD


def main(argv: list[str]) -> int:
    """Serve; returns 0 after a drain, 1 for a failure, 2 for wrong usage."""
    try:
        source = CliSettingsSource[object](Settings, cli_exit_on_error=False)
        settings = CliApp.run(Settings, cli_args=argv, cli_settings_source=source)
    except (SettingsError, ValidationError) as error:
        return _usage(error)
    problem = _missing_file(settings.model)
    if problem is not None:
        print(f"dicast serve: {problem}", file=sys.stderr)
        return 2
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    library = blas.ensure()
    log = logging.getLogger(__name__)
    log.info(
        "matrix products: %s, %s threads", library.name, settings.threads or library.threads or "default"
    )
    if library.warning:
        log.warning("%s", library.warning)
    code = asyncio.run(_serve(settings))
    if any(thread.name == ENGINE_THREAD for thread in threading.enumerate()):
        # A signal came while the model was loaded or fetched: that cannot be told to stop, and the
        # interpreter would wait for it.
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)
    return code


async def _serve(settings: Settings) -> int:
    from dicast_server.service.calls import Deadlines
    from dicast_server.service.catalogue import Catalogue
    from dicast_server.service.host import Host
    from dicast_server.service.limits import Limits
    from dicast_server.service.loading import load_served
    from dicast_server.service.server import Address, PortTakenError, Server

    limits = Limits(in_flight=settings.in_flight)
    host = Host(
        lambda: load_served(
            settings.model,
            caches.location(),
            profile=settings.profile,
            forward_tokens=settings.forward_tokens,
            store_bytes=settings.store_bytes(),
            threads=settings.threads,
        ),
        in_flight=limits.in_flight,
        least_option_mass=settings.min_option_mass,
    )
    server = Server(
        host,
        Catalogue(host, settings.model),
        limits,
        Deadlines(settings.default_deadline, settings.max_deadline),
        settings.drain,
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        port = await server.listen(Address(settings.grpc_host, settings.grpc_port))
    except PortTakenError as error:
        print(f"dicast serve: {error}", file=sys.stderr)
        return 1
    print(f"grpc {Address(settings.grpc_host, port)}", flush=True)
    ready = asyncio.create_task(server.make_ready())
    dead = asyncio.create_task(host.engine_died.wait())
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({dead, stopped}, return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()
    if dead.done():
        print("dicast serve: the engine died; its log says why", file=sys.stderr)
    await server.drain()
    return 1 if dead.done() else 0


def _missing_file(model: str) -> str | None:
    """A typing error is worth a word at once; everything else about a model shows when it loads."""
    path = Path(model).expanduser()
    looks_like_a_path = path.suffix == ".gguf" or path.is_absolute() or model.startswith((".", "~"))
    return f"there is no file or folder {model}" if looks_like_a_path and not path.exists() else None


def _usage(error: SettingsError | ValidationError) -> int:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        name = "--" + "-".join(str(part) for part in first["loc"]).replace("_", "-")
        text = f"{name}: {first['msg']}"
    else:
        text = " ".join(str(error).split())
    print(f"dicast serve: {text}", file=sys.stderr)
    return 2
