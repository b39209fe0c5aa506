"""`dicast serve`: the engine behind gRPC, until a signal drains it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dicast_server import blas, caches, calibrations
from dicast_server.adapters import places
from dicast_server.calibration import file as calibration_file
from dicast_server.calibration.file import CalibrationFileError
from dicast_server.cli import arguments
from dicast_server.cli.default_adapter import default_adapter
from dicast_server.cli.profiles import read_profile
from dicast_server.config import Settings
from dicast_server.engine import ENGINE_THREAD
from dicast_server.engine.costs import Costs
from dicast_server.profiling.profile_file import ProfileFile
from dicast_server.readouts.profile import Profile
from dicast_server.service.calibrated import Given
from dicast_server.service.keys import Keys
from dicast_server.service.registry import PluginError, Registry

NO_CALIBRATION = "none"


@dataclass(frozen=True, slots=True)
class _Files:
    """What the files hold that the flags name."""

    profile: Profile | ProfileFile | None
    costs: Costs | None
    keys: Keys | None
    calibration: Given | None


def main(argv: list[str]) -> int:
    """Serve; returns 0 after a drain, 1 for a failure, 2 for wrong usage."""
    settings = arguments.read(Settings, argv)
    if settings is None:
        return 2
    flag = "--profile"
    try:
        profile = read_profile(settings.profile)
        flag = "--costs"
        costs = Costs.read(settings.costs) if settings.costs is not None else None
        flag = "--api-keys"
        keys = Keys.read(settings.api_keys) if settings.api_keys is not None else None
        flag = "--calibration"
        calibration = _calibration(settings)
    except (ValueError, CalibrationFileError) as error:
        print(f"dicast serve: {flag}: {error}", file=sys.stderr)
        return 2
    files = _Files(profile, costs, keys, calibration)
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
    try:
        registry = Registry.installed()
    except PluginError as error:
        print(f"dicast serve: {error}", file=sys.stderr)
        return 1
    code = asyncio.run(_serve(settings, files, registry))
    if any(thread.name == ENGINE_THREAD for thread in threading.enumerate()):
        # A signal came while the model was loaded or fetched: that cannot be told to stop, and the
        # interpreter would wait for it.
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)
    return code


def _calibration(settings: Settings) -> Given | None:
    """The calibration that was named. Raises ValueError or CalibrationFileError where there is none."""
    named = settings.calibration
    if named is None or named == NO_CALIBRATION:
        return None
    if settings.calibrate is not None:
        raise ValueError("does not go with --calibrate: say one place that the calibration comes from")
    path = Path(named).expanduser()
    return Given(path, calibration_file.read(path))


def _adapters_folder(settings: Settings) -> Callable[[str], Path]:
    """Where a model's adapters are, by its id."""
    named = settings.adapters
    return places.folder if named is None else lambda _: named.expanduser()


async def _serve(settings: Settings, files: _Files, registry: Registry) -> int:
    from dicast_server.service.adapters import Adapters
    from dicast_server.service.calibrating import CalibrationSource
    from dicast_server.service.calls import Deadlines
    from dicast_server.service.catalogue import DEFAULT_ALIASES, Catalogue
    from dicast_server.service.host import Host
    from dicast_server.service.limits import Limits
    from dicast_server.service.loading import load_served
    from dicast_server.service.server import Address, PortTakenError, Server

    limits = Limits(in_flight=settings.in_flight)
    host = Host(
        lambda: load_served(
            settings.model,
            caches.location(),
            profile=files.profile,
            registry=registry,
            forward_tokens=settings.forward_tokens,
            store_bytes=settings.store_bytes(),
            work_bytes=settings.work_bytes(),
            copy_bytes=settings.copy_mib * 1024 * 1024,
            threads=settings.threads,
            costs=files.costs,
        ),
        registry,
        in_flight=limits.in_flight,
        work_bytes=settings.work_bytes(),
        least_option_mass=settings.min_option_mass,
        calibration=CalibrationSource(
            settings.temperature,
            files.calibration,
            settings.calibrate.expanduser() if settings.calibrate is not None else None,
            calibrations.folder() if settings.calibration != NO_CALIBRATION else None,
        ),
        default=default_adapter(settings.model, plain=settings.no_adapter or settings.profile is not None),
    )
    server = Server(
        host,
        Catalogue(host, settings.model, (*DEFAULT_ALIASES, *settings.alias)),
        limits,
        Deadlines(settings.default_deadline, settings.max_deadline),
        settings.drain,
        keys=files.keys,
        adapters=None
        if settings.no_adapters
        else Adapters(host, _adapters_folder(settings), settings.adapters_every),
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
