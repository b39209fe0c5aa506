"""The engine and what it serves: a model that is loaded and checked at the start, and its adapters."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from dicast_server.engine.reader import Reader
from dicast_server.engine.thread import Engine
from dicast_server.models import ModelRefused
from dicast_server.profiling.comparison import LEAST_OPTION_MASS
from dicast_server.service import failures
from dicast_server.service.adapter_loading import AdapterLoader, AdapterPlace, in_the_models_place
from dicast_server.service.calibrating import CalibrationSource
from dicast_server.service.entry import Entry, Status
from dicast_server.service.loading import Served
from dicast_server.service.planning import Planner
from dicast_server.service.registry import Registry
from dicast_server.service.starting import Starting

__all__ = ["Host", "Slot", "Status"]

log = logging.getLogger(__name__)

Planned = TypeVar("Planned")
_PLANS_AT_ONCE = 2


class Slot:
    """A request's place among those in flight."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave: Callable[[], None] | None = leave

    def release(self) -> None:
        """Give the place back; what comes again does nothing."""
        if self._leave is not None:
            leave, self._leave = self._leave, None
            leave()


class Host:
    """Owns the engine and the model that it serves, and lets in as many requests as may wait.

    `base` is the model, `adapted` are its adapters by their names. `default` is what answers requests that
    name neither: the base, or an adapter that takes its place; then nobody finds the base itself. Only the
    event loop changes them.
    """

    def __init__(
        self,
        load: Callable[[], Served],
        registry: Registry,
        *,
        in_flight: int = 64,
        work_bytes: int | None = None,
        least_option_mass: float = LEAST_OPTION_MASS,
        calibration: CalibrationSource | None = None,
        default: AdapterPlace | None = None,
    ) -> None:
        """`load` runs on the engine thread and may raise ModelRefused; `registry` has what can be asked how.

        What is read at once takes at most `work_bytes`. Without a `calibration` nothing is fitted. `default`
        is the adapter that answers in the model's place.
        """
        self._load = load
        self.calibration = calibration or CalibrationSource()
        self.registry = registry
        self._engine = Engine(self._load_reader, memory_bytes=work_bytes)
        self.starting = Starting(self._engine, least_option_mass)
        self._in_flight = 0
        self._most_in_flight = in_flight
        self.loader = AdapterLoader(self._engine, self.starting)
        self._default_place = default
        self.base = Entry(registry)
        self.default = self.base if default is None else Entry(registry, default.name)
        self.adapted: dict[str, Entry] = {}
        self._loaded: Served | None = None
        self.draining = False
        self.engine_died = asyncio.Event()
        self._planning = asyncio.Semaphore(_PLANS_AT_ONCE)
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self) -> None:
        """Load and check the model; returns when it is ready or refused."""
        loop = asyncio.get_running_loop()
        started: asyncio.Future[BaseException | None] = loop.create_future()

        def tell(_: Reader | None, error: BaseException | None) -> None:
            loop.call_soon_threadsafe(_settle, started, error)

        def died() -> None:
            loop.call_soon_threadsafe(self.engine_died.set)

        self._engine.start(tell, died)
        error = await started
        if error is not None:
            if isinstance(error, ModelRefused):
                self.default.refuse(str(error))
            else:
                log.error("the model could not be loaded", exc_info=error)
                self.default.refuse("the model could not be loaded; the server's log says why")
            return
        if (place := self._default_place) is not None:
            # Never the base in its stead: that is another model, with other answers.
            calibration = partial(in_the_models_place, self.calibration)
            await self.loader.load(self.default, place.folder, self.loaded, calibration)
        else:
            await self._start_base()
        if self.status is Status.READY and (served := self.default.served) is not None:
            self._tell(served)

    async def _start_base(self) -> None:
        rendered = self.loaded
        ways = itertools.chain([rendered], rendered.openings())
        try:
            passed = await self.starting.start(self.base, ways, self.calibration)
        except Exception:
            log.exception("the self-check failed")
            self.base.refuse("its self-check failed; the server's log says why")
            return
        if passed and (served := self.served) is not None:
            self.base.be_ready(served)

    @property
    def loaded(self) -> Served:
        """The model as it was loaded, with the template's own opening of the reply."""
        assert self._loaded is not None
        return self._loaded

    @property
    def served(self) -> Served | None:
        """The model, once it is loaded; it may still be refused."""
        return self.base.served

    @property
    def status(self) -> Status:
        """Whether requests that name no model can be answered."""
        return self.default.status

    @property
    def status_message(self) -> str:
        """Why it cannot, or what is wrong though it can."""
        return self.default.status_message

    @property
    def engine(self) -> Engine:
        """The engine thread."""
        return self._engine

    def planner(self, entry: Entry | None = None) -> Planner:
        """The planner of a model that is ready, by default of the default one.

        Raises:
            Failure: UNAVAILABLE where it is not.
        """
        if self.draining:
            raise failures.draining()
        planner = (entry or self.default).planner()
        if not self._engine.alive:
            raise failures.model_unavailable("the engine has stopped; this server answers no more")
        return planner

    def admit(self, entry: Entry | None = None) -> Slot:
        """Count a request of a model in flight, from before it is planned until the engine is done with it.

        Raises:
            Failure: RESOURCE_EXHAUSTED where as many are in flight as may.
        """
        if self._in_flight >= self._most_in_flight:
            raise failures.overloaded(self._in_flight)
        self._in_flight += 1
        self._idle.clear()
        entry = entry or self.default
        entry.enter()
        return Slot(partial(self._leave, entry))

    async def plan(self, plan: Callable[[], Planned]) -> Planned:
        """Read and tokenise a request beside the event loop: a long one takes seconds.

        Few at a time, and none that was given up while it waited. One that is given up later goes on, since
        a thread cannot be told to stop, and keeps its place until it ends.
        """
        await self._planning.acquire()
        planned = asyncio.create_task(asyncio.to_thread(_carried, plan))
        planned.add_done_callback(lambda _: self._planning.release())
        return await asyncio.shield(planned)

    def _leave(self, entry: Entry) -> None:
        entry.leave()
        self._in_flight -= 1
        if not self._in_flight:
            self._idle.set()

    def close(self) -> None:
        """End the engine before its next forward. One that still loads is left: it cannot be told."""
        if self.served is not None or self.status is Status.REFUSED:
            self._engine.close()

    def _load_reader(self) -> Reader:
        self._loaded = self.base.served = self._load()
        return self._loaded.reader

    def _tell(self, served: Served) -> None:
        if served.context < (whole := served.model.context):
            log.warning(
                "model %s reads %d of its %d tokens: more do not fit into --work-mib",
                served.id,
                served.context,
                whole,
            )
        runs_on, device = served.reader.head.runs_on, served.machinery.device
        log.info("model %s is ready: %s on %s", served.id, runs_on, device)

    async def idle(self) -> None:
        """Wait until no request is in flight."""
        await self._idle.wait()


def _carried(plan: Callable[[], Planned]) -> Planned:
    """Run a plan, all of whose exceptions must reach its caller.

    No future carries a StopIteration, and a loop ends with what is no Exception: both come from plugins.
    """
    try:
        return plan()
    except BaseException as error:
        if isinstance(error, Exception) and not isinstance(error, StopIteration):
            raise
        raise RuntimeError(f"{type(error).__name__} out of a plugin, while a request was planned") from error


def _settle(future: asyncio.Future[BaseException | None], outcome: BaseException | None) -> None:
    # Whoever waited may have been cancelled by a signal meanwhile.
    if not future.done():
        future.set_result(outcome)
