"""The served model: loaded on the engine thread, checked, then ready, refused or dead."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import TypeVar

from dicast_server.calibration.document import Key
from dicast_server.calibration.file import OtherSystem
from dicast_server.engine.reader import Reader
from dicast_server.engine.thread import Engine
from dicast_server.models import ModelRefused
from dicast_server.profiling.comparison import LEAST_OPTION_MASS
from dicast_server.service import failures
from dicast_server.service.calibrating import CalibrationSource, NotCalibratedError
from dicast_server.service.loading import Served
from dicast_server.service.planning import Planner
from dicast_server.service.registry import Registry
from dicast_server.service.selfcheck import SelfCheck, check, refusal
from dicast_server.service.temperatures import Temperatures

log = logging.getLogger(__name__)

Planned = TypeVar("Planned")
_PLANS_AT_ONCE = 2


class Status(Enum):
    """Whether a model can answer."""

    STARTING = "starting"
    READY = "ready"
    REFUSED = "refused"


class Slot:
    """A request's place among those in flight."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave: Callable[[], None] | None = leave

    def release(self) -> None:
        """Give the place back; what comes again does nothing."""
        if self._leave is not None:
            self._leave()
            self._leave = None


class Host:
    """Owns the engine and the model that it serves, and lets in as many requests as may wait."""

    def __init__(
        self,
        load: Callable[[], Served],
        registry: Registry,
        *,
        in_flight: int = 64,
        work_bytes: int | None = None,
        least_option_mass: float = LEAST_OPTION_MASS,
        calibration: CalibrationSource | None = None,
    ) -> None:
        """`load` runs on the engine thread and may raise ModelRefused; `registry` has what can be asked how.

        What is read at once takes at most `work_bytes`. Without a `calibration` nothing is fitted.
        """
        self._load = load
        self._calibration = calibration or CalibrationSource()
        self.registry = registry
        self._engine = Engine(self._load_reader, memory_bytes=work_bytes)
        self._in_flight = 0
        self._most_in_flight = in_flight
        self._least_option_mass = least_option_mass
        self._served: Served | None = None
        self._planner: Planner | None = None
        self.status = Status.STARTING
        self.status_message = ""
        self.self_check: SelfCheck | None = None
        self.ready_since: float | None = None
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
                self._refuse(str(error))
            else:
                log.error("the model could not be loaded", exc_info=error)
                self._refuse("the model could not be loaded; the server's log says why")
            return
        try:
            passed = await self._check()
        except Exception:
            log.exception("the self-check failed")
            self._refuse("its self-check failed; the server's log says why")
            return
        if passed is not None and await self._calibrate(*passed):
            self._be_ready(passed[0])

    @property
    def served(self) -> Served | None:
        """The model, once it is loaded; it may still be refused."""
        return self._served

    @property
    def engine(self) -> Engine:
        """The engine thread."""
        return self._engine

    def planner(self) -> Planner:
        """The planner of a model that is ready.

        Raises:
            Failure: UNAVAILABLE where it is not.
        """
        if self.draining:
            raise failures.draining()
        if self.status is Status.STARTING:
            raise failures.starting(self.status_message)
        if self.status is Status.REFUSED or self._planner is None:
            raise failures.model_unavailable(f"the model is not served: {self.status_message}")
        if not self._engine.alive:
            raise failures.model_unavailable("the engine has stopped; this server answers no more")
        return self._planner

    def readouts(self) -> list[str]:
        """The names of all readouts, that of a question whose request names none first."""
        default = self._served.profile.readout if self._served is not None else ""
        return sorted(self.registry.readouts, key=lambda name: name != default)

    @property
    def prompt_version(self) -> str:
        """The version of the prompts of that readout; empty until the model is loaded."""
        return self._planner.prompt_version if self._planner is not None else ""

    @property
    def temperatures(self) -> Temperatures | None:
        """What divides scores, once the model is loaded."""
        return self._planner.temperatures if self._planner is not None else None

    @property
    def wanted(self) -> Key | None:
        """What a calibration of the model is to be made for, once it is loaded and its check passed."""
        if self.ready_since is None or self._served is None or self._planner is None:
            return None
        return self._served.reading.default_key(self.registry.readouts)

    def admit(self) -> Slot:
        """Count a request in flight, from before it is planned until the engine is done with it.

        Raises:
            Failure: RESOURCE_EXHAUSTED where as many are in flight as may.
        """
        if self._in_flight >= self._most_in_flight:
            raise failures.overloaded(self._in_flight)
        self._in_flight += 1
        self._idle.clear()
        return Slot(self._leave)

    async def plan(self, plan: Callable[[], Planned]) -> Planned:
        """Read and tokenise a request beside the event loop: a long one takes seconds.

        Few at a time, and none that was given up while it waited. One that is given up later goes on, since
        a thread cannot be told to stop, and keeps its place until it ends.
        """
        await self._planning.acquire()
        planned = asyncio.create_task(asyncio.to_thread(_carried, plan))
        planned.add_done_callback(lambda _: self._planning.release())
        return await asyncio.shield(planned)

    def _leave(self) -> None:
        self._in_flight -= 1
        if not self._in_flight:
            self._idle.set()

    def close(self) -> None:
        """End the engine before its next forward. One that still loads is left: it cannot be told."""
        if self._served is not None or self.status is Status.REFUSED:
            self._engine.close()

    def _load_reader(self) -> Reader:
        self._served = self._load()
        return self._served.reader

    async def _check(self) -> tuple[Served, Planner] | None:
        """The model as it is to be served; None where it is refused."""
        assert self._served is not None
        try:
            passed = await self._passed(self._served)
        except failures.Failure as failure:
            self._refuse(f"it cannot answer the questions of its self-check: {failure}")
            return None
        if passed is None:
            return None
        self._served, self._planner, self.self_check = passed
        return passed[0], passed[1]

    async def _calibrate(self, served: Served, planner: Planner) -> bool:
        """Find or fit the calibration; says whether the model may be served."""

        def told(done: int, of: int) -> None:
            self.status_message = f"calibrating {done} of {of}"

        calibrated, note = None, ""
        try:
            calibrated = await self._calibration.find(served.reading, planner, self._engine, told)
        except OtherSystem as error:
            self._refuse(f"the calibration does not fit: {error}")
            return False
        except NotCalibratedError as error:
            note = f"it is not calibrated: {error}"
            log.warning("model %s is served, but %s", served.model.id, note)
        self.status_message = note
        temperatures = Temperatures(served.profile, self._calibration.temperature, calibrated)
        self._planner = replace(planner, temperatures=temperatures)
        return True

    def _be_ready(self, served: Served) -> None:
        if self.self_check is not None and self.self_check.near_chance:
            guesses = (
                f"its answers look like guesses: {self.self_check.right} of {self.self_check.asked} known "
                "answers were right at the start"
            )
            self.status_message = "; ".join(note for note in (guesses, self.status_message) if note)
            log.warning("model %s is served, but %s", served.model.id, guesses)
        if served.context < (whole := served.model.context):
            log.warning(
                "model %s reads %d of its %d tokens: more do not fit into --work-mib",
                served.model.id,
                served.context,
                whole,
            )
        self.status = Status.READY
        self.ready_since = time.time()
        runs_on, device = served.reader.head.runs_on, served.machinery.device
        log.info("model %s is ready: %s on %s", served.model.id, runs_on, device)

    async def _passed(self, rendered: Served) -> tuple[Served, Planner, SelfCheck] | None:
        """The first way to begin a reply after which the model answers; refuses the model if none is."""
        tried: list[tuple[str, SelfCheck]] = []
        for served in itertools.chain([rendered], rendered.openings()):
            self._planner = planner = served.planner(self.registry)
            outcome = await check(self._engine, planner)
            opening = served.model.frame.opening
            name = "the template's own opening" if opening is None else opening.name
            log.info("model %s: option mass %.3g behind %s", served.model.id, outcome.option_mass, name)
            if outcome.reaches(self._least_option_mass):
                return served, planner, outcome
            tried.append((name, outcome))
        self.self_check = tried[0][1]
        self._refuse(refusal(tried, self._least_option_mass))
        return None

    async def idle(self) -> None:
        """Wait until no request is in flight."""
        await self._idle.wait()

    def _refuse(self, why: str) -> None:
        log.error("the model is not served: %s", why)
        self.status = Status.REFUSED
        self.status_message = why


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
