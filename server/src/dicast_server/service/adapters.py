"""The adapters that a server finds in a folder: added, replaced and removed while it serves."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from dicast_server.adapters import file, scan
from dicast_server.adapters.document import Adapter
from dicast_server.adapters.errors import AdapterRefused
from dicast_server.adapters.scan import Signature
from dicast_server.calibration import file as calibration_file
from dicast_server.calibration.file import CalibrationFileError
from dicast_server.engine.adapting import Adapting, Dropping
from dicast_server.engine.machinery import Machinery
from dicast_server.engine.reader import Tally
from dicast_server.engine.thread import EngineStoppedError
from dicast_server.service.calibrated import Given
from dicast_server.service.calibrating import CalibrationSource
from dicast_server.service.entry import Entry
from dicast_server.service.host import Host
from dicast_server.service.loading import Served
from dicast_server.service.running import run
from dicast_server.service.tuned import tuned

log = logging.getLogger(__name__)

EVERY_S = 5.0
"""How long a folder is not looked at again, unless told otherwise."""


class Adapters:
    """Keeps the adapters of a host as those of a folder. Everything here runs on the event loop."""

    def __init__(
        self,
        host: Host,
        folder: Callable[[str], Path],
        every_s: float = EVERY_S,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """`folder` gives the folder for the base's id; `sleep` waits between two looks, `every_s` seconds."""
        self._host = host
        self._folder = folder
        self._every_s = every_s
        self._sleep = sleep
        self._seen: dict[str, Signature] = {}
        self._fresh: list[str] = []
        self._complained: set[str] = set()
        # 0 is the base's.
        self._numbers = itertools.count(1)

    @property
    def folder(self) -> Path:
        """Where they are; the base is loaded."""
        return self._folder(self._host.loaded.model.id)

    async def watch(self) -> None:
        """Look at the folder again and again, until cancelled."""
        while True:
            try:
                await self.scan()
            except Exception as error:  # the folder is somebody else's, and the base is to be served on
                self._complain(f"{self.folder} cannot be looked at: {error}")
            await self._sleep(self._every_s)

    async def scan(self) -> None:
        """Look once, and load what is new."""
        await self.look()
        await self.settle()

    async def look(self) -> None:
        """Remove what is gone, and list what is new: it is yet to be loaded.

        Raises:
            OSError: the folder cannot be read.
        """
        found = await asyncio.to_thread(scan.look, self.folder, self._seen)
        for name in found.misnamed:
            self._complain(
                f"the adapter in the folder {name} is not served: its name must begin with a small letter or "
                "a digit and go on with those, dots, underscores and hyphens, 63 in all"
            )
        for name, why in found.unreadable:
            self._complain(f"the folder {name} beside the adapters cannot be looked into: {why}")
        for name in [name for name in self._host.adapted if name not in found.adapters]:
            entry = self._host.adapted.pop(name)
            log.info("adapter %s is removed", name)
            self._retire(entry)
        self._fresh = [name for name in self._fresh if name in found.adapters]
        for name, signature in found.adapters.items():
            if self._seen.get(name) != signature and name not in self._fresh:
                self._fresh.append(name)
                self._host.adapted.setdefault(name, Entry(self._host.registry, name))
        self._seen = dict(found.adapters)

    async def settle(self) -> None:
        """Load what is new, one after the other. One that takes another's place does so when it is loaded."""
        while self._fresh:
            name = self._fresh[0]
            there = self._host.adapted[name]
            entry = there if there.is_new else Entry(self._host.registry, name)
            await self._load(entry)
            self._host.adapted[name] = entry
            if there is not entry:
                self._retire(there)
            self._fresh.remove(name)

    async def _load(self, entry: Entry) -> None:
        """Make an entry answer or say why it does not."""
        number, ready = next(self._numbers), False
        try:
            ready = await self._start(entry, self.folder / entry.name, number)
        except AdapterRefused as error:
            entry.refuse(str(error))
        except Exception:
            log.exception("the adapter %s could not be loaded", entry.name)
            entry.refuse("it could not be loaded; the server's log says why")
        finally:
            if not ready:
                self._drop(number)

    async def _start(self, entry: Entry, folder: Path, number: int) -> bool:
        adapter, weights = await asyncio.to_thread(file.read_with_weights, folder)
        entry.adapter = adapter
        calibration = await asyncio.to_thread(self._calibration, folder)
        served = await asyncio.to_thread(
            tuned, self._host.loaded, adapter, entry.name, number, self._host.registry.readouts
        )
        served = replace(served, machinery=await self._adapt(served, adapter, weights, number))
        if not await self._host.starting.start(entry, [served], calibration):
            return False
        entry.be_ready(served)
        log.info("model %s is ready: adapter %s", served.id, adapter.weights_sha256)
        return True

    async def _adapt(self, served: Served, adapter: Adapter, weights: bytes, number: int) -> Machinery:
        """Have the engine build the adapter's reader, in turn with what it reads."""
        pools = served.head is not None
        work = Adapting(served.model, adapter, weights, number, served.machinery, pools)
        async with aclosing(run(self._host.engine, work)) as events:
            async for event in events:
                if isinstance(event, Machinery):
                    return event
        raise AssertionError("an adapter was built without an outcome")

    def _calibration(self, folder: Path) -> CalibrationSource:
        """Where the calibration comes from: the adapter's own folder, else earlier fits."""
        source = self._host.calibration
        given = None
        own = folder / file.CALIBRATION
        if source.folder is not None and own.is_file():
            # What callers are told has no folders.
            shown = Path(folder.name) / file.CALIBRATION
            try:
                given = Given(shown, calibration_file.read(own))
            except CalibrationFileError as error:
                raise AdapterRefused(str(error).replace(str(own), str(shown))) from error
        return CalibrationSource(source.temperature, given, None, source.folder)

    def _retire(self, entry: Entry) -> None:
        """Let an entry go that nobody finds any more, after its last request."""
        if entry.served is not None and entry.served.tuning is not None:
            number = entry.served.tuning.number
            entry.retire(lambda: self._drop(number))

    def _drop(self, number: int) -> None:
        """Free what a reader holds, where there is one."""
        with suppress(EngineStoppedError):
            self._host.engine.submit(Dropping(number).start, _Deaf())

    def _complain(self, what: str) -> None:
        """Warn once, not at every look."""
        if what not in self._complained:
            self._complained.add(what)
            log.warning("%s", what)


class _Deaf:
    """Listens to work whose outcome changes nothing."""

    def results(self, results: Sequence[Any]) -> None:
        """Nothing comes of it."""

    def finished(self, tally: Tally) -> None:
        """It is done."""

    def failed(self, error: BaseException) -> None:
        """The engine has ended, and its memory with it."""
