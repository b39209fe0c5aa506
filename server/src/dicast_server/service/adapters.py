"""The adapters that a server finds in a folder: added, replaced and removed while it serves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from dicast_server.adapters import scan
from dicast_server.adapters.scan import Signature
from dicast_server.service.adapter_loading import beside_the_model
from dicast_server.service.entry import Entry
from dicast_server.service.host import Host

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
        adapters = dict(found.adapters)
        if (taken := self._host.default.name) and adapters.pop(taken, None) is not None:
            self._complain(
                f"the adapter in the folder {taken} is not served: the one that comes with dicast has that "
                "name; rename the folder, or serve without that one by --no-adapter"
            )
        for name in [name for name in self._host.adapted if name not in adapters]:
            entry = self._host.adapted.pop(name)
            log.info("adapter %s is removed", name)
            self._host.loader.retire(entry)
        self._fresh = [name for name in self._fresh if name in adapters]
        for name, signature in adapters.items():
            if self._seen.get(name) != signature and name not in self._fresh:
                self._fresh.append(name)
                self._host.adapted.setdefault(name, Entry(self._host.registry, name))
        self._seen = adapters

    async def settle(self) -> None:
        """Load what is new, one after the other. One that takes another's place does so when it is loaded."""
        while self._fresh:
            name = self._fresh[0]
            there = self._host.adapted[name]
            entry = there if there.is_new else Entry(self._host.registry, name)
            await self._host.loader.load(
                entry,
                self.folder / name,
                self._host.loaded,
                partial(beside_the_model, self._host.calibration),
            )
            self._host.adapted[name] = entry
            if there is not entry:
                self._host.loader.retire(there)
            self._fresh.remove(name)

    def _complain(self, what: str) -> None:
        """Warn once, not at every look."""
        if what not in self._complained:
            self._complained.add(what)
            log.warning("%s", what)
