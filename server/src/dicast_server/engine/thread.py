"""The engine thread: owns the model and all arrays, and gives every request a forward in turn."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import mlx.core as mx

from dicast_server.engine import ENGINE_THREAD
from dicast_server.engine.reader import Reader, Steps, Tally

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class EngineStoppedError(Exception):
    """The engine has ended: it runs no request any more."""


class Listener(Protocol):
    """Who hears of a request. All calls come from the engine thread and must return at once."""

    def results(self, results: Sequence[Any]) -> None:
        """Results that a forward completed."""

    def finished(self, tally: Tally) -> None:
        """The request is done; nothing follows."""

    def failed(self, error: BaseException) -> None:
        """The request failed; nothing follows."""


Start = Callable[[Reader, Tally], Steps[Result]]
"""Starts a request on the engine thread."""


@dataclass(slots=True)
class Job(Generic[Result]):
    """One request on its way through the engine."""

    start: Start[Result]
    listener: Listener
    nbytes: int = 0
    tally: Tally = field(default_factory=Tally)
    steps: Steps[Result] | None = None
    stopped: bool = False

    def stop(self) -> None:
        """Give up: no further forward runs, the listener hears nothing more. From any thread, any time."""
        self.stopped = True


class Engine:
    """Runs requests on a thread of its own, one forward each in turn.

    `load` builds the reader on that thread, because MLX's streams belong to threads. At most
    `max_active` requests take turns, and no more than what they read fits into `memory_bytes` (a request
    alone always runs); more wait in order of arrival. How many may wait is the caller's to bound.
    """

    def __init__(
        self, load: Callable[[], Reader], max_active: int = 8, memory_bytes: int | None = None
    ) -> None:
        self._load = load
        self._max_active = max_active
        self._memory_bytes = memory_bytes
        self._changed = threading.Condition()
        self._waiting: deque[Job[Any]] = deque()
        self._active: deque[Job[Any]] = deque()
        self._current: Job[Any] | None = None
        self._closing = False
        self._death: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=ENGINE_THREAD, daemon=True)

    def start(
        self,
        started: Callable[[Reader | None, BaseException | None], None],
        died: Callable[[], None] = lambda: None,
    ) -> None:
        """Start the thread.

        `started` hears, on it, of the reader or of the reason why there is none; `died` hears when the
        thread ends though nobody closed it.
        """
        self._started = started
        self._died = died
        self._thread.start()

    def submit(self, start: Start[Result], listener: Listener, nbytes: int = 0) -> Job[Result]:
        """Queue a request that takes so many bytes while it is read.

        Raises:
            EngineStoppedError: the thread has ended.
        """
        job = Job(start, listener, nbytes)
        with self._changed:
            if self._death is not None or self._closing:
                raise EngineStoppedError("the engine has stopped")
            self._waiting.append(job)
            self._changed.notify()
        return job

    @property
    def load(self) -> int:
        """Requests that wait or run."""
        with self._changed:
            return len(self._waiting) + len(self._active) + (self._current is not None)

    @property
    def alive(self) -> bool:
        """Whether requests are still being run."""
        return self._death is None and self._thread.is_alive()

    def close(self) -> None:
        """End the thread before its next forward; requests that are left fail with EngineStoppedError."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException as error:
            log.exception("the engine thread died")
            self._end(error)
            self._died()
        else:
            self._end(EngineStoppedError("the engine was closed"))
        finally:
            # A thread that ran MLX and ends with its streams open aborts the process at exit.
            mx.clear_streams()

    def _serve(self) -> None:
        try:
            reader = self._load()
        except Exception as error:
            self._started(None, error)
            return
        self._started(reader, None)
        while (job := self._next()) is not None:
            if job.stopped:
                _close(job)
                goes_on = False
            else:
                goes_on = self._step(job, reader)
            with self._changed:
                self._current = None
                if goes_on:
                    self._active.append(job)
            # Nothing of a request stays behind while the thread waits for the next one.
            del job

    def _next(self) -> Job[Any] | None:
        """The request whose turn it is; waits where there is none. None: time to end."""
        with self._changed:
            while not self._closing:
                if any(job.stopped for job in self._waiting):
                    self._waiting = deque(job for job in self._waiting if not job.stopped)
                while self._waiting and self._fits(self._waiting[0]):
                    self._active.append(self._waiting.popleft())
                if self._active:
                    self._current = self._active.popleft()
                    return self._current
                self._changed.wait()
            return None

    def _fits(self, job: Job[Any]) -> bool:
        """Whether a request can run beside those that do."""
        if not self._active or len(self._active) >= self._max_active:
            return not self._active
        taken = sum(other.nbytes for other in self._active) + job.nbytes
        return self._memory_bytes is None or taken <= self._memory_bytes

    def _step(self, job: Job[Any], reader: Reader) -> bool:
        """Run one forward of a request. False: the request is over."""
        try:
            if job.steps is None:
                job.steps = job.start(reader, job.tally)
            results, over = next(job.steps), False
        except StopIteration as end:
            results, over = end.value, True
        except Exception as error:
            # The fault of one request; the others go on.
            if not job.stopped:
                job.listener.failed(error)
            return False
        if results and not job.stopped:
            job.listener.results(results)
        if over and not job.stopped:
            job.listener.finished(job.tally)
        return not over

    def _end(self, error: BaseException) -> None:
        with self._changed:
            self._death = error
            left = [*filter(None, [self._current]), *self._active, *self._waiting]
            self._current = None
            self._active.clear()
            self._waiting.clear()
        for job in left:
            _close(job)
            if not job.stopped:
                job.listener.failed(EngineStoppedError(str(error)))


def _close(job: Job[Any]) -> None:
    if job.steps is not None:
        job.steps.close()
