"""From an adapter's folder to an entry that answers, or that says why it does not."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dicast_server.adapters import file
from dicast_server.adapters.errors import AdapterRefused
from dicast_server.adapters.file import Contents
from dicast_server.calibration import file as calibration_file
from dicast_server.calibration.file import CalibrationFileError
from dicast_server.engine.adapting import Adapting, Dropping
from dicast_server.engine.machinery import Machinery
from dicast_server.engine.reader import Tally
from dicast_server.engine.thread import Engine, EngineStoppedError
from dicast_server.service.calibrated import Given
from dicast_server.service.calibrating import CalibrationSource
from dicast_server.service.entry import Entry
from dicast_server.service.loading import Served
from dicast_server.service.running import run
from dicast_server.service.starting import Starting
from dicast_server.service.tuned import tuned

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AdapterPlace:
    """Where an adapter lies, and the name that it is served under."""

    name: str
    folder: Path


class AdapterLoader:
    """Has an engine read a model through adapters too. Everything here runs on the event loop."""

    def __init__(self, engine: Engine, starting: Starting) -> None:
        self._engine = engine
        self._starting = starting
        # 0 is the base's.
        self._numbers = itertools.count(1)

    async def load(
        self, entry: Entry, folder: Path, base: Served, calibration: Callable[[Path], CalibrationSource]
    ) -> None:
        """Make an entry answer, or refuse it with the reason.

        `base` is the model as it was loaded; `calibration` says where that of a folder comes from, and may
        raise AdapterRefused.
        """
        number, ready = next(self._numbers), False
        try:
            ready = await self._start(entry, folder, base, calibration, number)
        except AdapterRefused as error:
            entry.refuse(str(error))
        except Exception:
            log.exception("the adapter %s could not be loaded", entry.name)
            entry.refuse("it could not be loaded; the server's log says why")
        finally:
            if not ready:
                self._drop(number)

    def retire(self, entry: Entry) -> None:
        """Let an entry go that nobody finds any more, after its last request."""
        if entry.served is not None and entry.served.tuning is not None:
            number = entry.served.tuning.number
            entry.retire(lambda: self._drop(number))

    async def _start(
        self,
        entry: Entry,
        folder: Path,
        base: Served,
        calibration: Callable[[Path], CalibrationSource],
        number: int,
    ) -> bool:
        contents = await asyncio.to_thread(file.read_contents, folder)
        entry.adapter = contents.adapter
        source = await asyncio.to_thread(calibration, folder)
        served = await asyncio.to_thread(tuned, base, contents, entry.name, number, entry.registry.readouts)
        served = replace(served, machinery=await self._adapt(served, contents, number))
        if not await self._starting.start(entry, [served], source):
            return False
        entry.be_ready(served)
        log.info("model %s is ready: adapter %s", served.id, contents.adapter.hash)
        return True

    async def _adapt(self, served: Served, contents: Contents, number: int) -> Machinery:
        """Have the engine build the adapter's reader, in turn with what it reads."""
        pools = served.head is not None
        work = Adapting(served.model, contents.adapter, contents.weights, number, served.machinery, pools)
        async with aclosing(run(self._engine, work)) as events:
            async for event in events:
                if isinstance(event, Machinery):
                    return event
        raise AssertionError("an adapter was built without an outcome")

    def _drop(self, number: int) -> None:
        """Free what a reader holds, where there is one."""
        with suppress(EngineStoppedError):
            self._engine.submit(Dropping(number).start, _Deaf())


def beside_the_model(source: CalibrationSource, folder: Path) -> CalibrationSource:
    """Where the calibration of an adapter comes from that is asked by name: its folder, else earlier fits.

    `source` is what the server is told, of which a file and questions are the model's own.

    Raises:
        AdapterRefused: the file in its folder cannot be read.
    """
    return CalibrationSource(source.temperature, _own(source, folder), None, source.folder)


def in_the_models_place(source: CalibrationSource, folder: Path) -> CalibrationSource:
    """The same of an adapter that answers as the model: what the server is told, and earlier fits.

    Else its folder: that file came with dicast, and a fit is its user's. Raises as `beside_the_model`.
    """
    return replace(source, shipped=_own(source, folder))


def _own(source: CalibrationSource, folder: Path) -> Given | None:
    own = folder / file.CALIBRATION
    if source.folder is None or not own.is_file():
        return None
    # What callers are told has no folders.
    shown = Path(folder.name) / file.CALIBRATION
    try:
        return Given(shown, calibration_file.read(own))
    except CalibrationFileError as error:
        raise AdapterRefused(str(error).replace(str(own), str(shown))) from error


class _Deaf:
    """Listens to work whose outcome changes nothing."""

    def results(self, results: Sequence[Any]) -> None:
        """Nothing comes of it."""

    def finished(self, tally: Tally) -> None:
        """It is done."""

    def failed(self, error: BaseException) -> None:
        """The engine has ended, and its memory with it."""
