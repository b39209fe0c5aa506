"""Brings what the engine thread finds to the event loop, and stops work that nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Protocol, TypeVar

from dicast_server.engine.reader import Tally
from dicast_server.engine.thread import Engine, EngineStoppedError, Start
from dicast_server.service import failures

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)
_Event = Sequence[Any] | Tally | BaseException


class _Inbox:
    """Listens on the engine thread and is read on the event loop."""

    def __init__(self, done: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._done = done
        self.events: asyncio.Queue[_Event] = asyncio.Queue()

    def results(self, results: Sequence[Any]) -> None:
        self._put(results)

    def finished(self, tally: Tally) -> None:
        self._put(tally, last=True)

    def failed(self, error: BaseException) -> None:
        self._put(error, last=True)

    def _put(self, event: _Event, last: bool = False) -> None:
        # A loop that has closed has nobody left who waits.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.events.put_nowait, event)
            if last:
                self._loop.call_soon_threadsafe(self._done)


class Startable(Protocol[Result_co]):
    """Work for the engine."""

    @property
    def start(self) -> Start[Result_co]:
        """Its steps."""

    @property
    def nbytes(self) -> int:
        """What it takes in memory while it is read."""


async def run(
    engine: Engine, work: Startable[Result], done: Callable[[], None] = lambda: None
) -> AsyncGenerator[Result | Tally]:
    """Run a request: its results as they are read, then the tally.

    `done` is called as soon as the engine is done with it, which a slow reader learns late. Closing the
    iterator, as a cancelled or timed-out call does, stops the work before its next forward.

    Raises:
        Failure: UNAVAILABLE where the engine has ended.
    """
    inbox = _Inbox(done)
    try:
        job = engine.submit(work.start, inbox, work.nbytes)
    except EngineStoppedError as error:
        raise failures.model_unavailable("the engine has stopped; this server answers no more") from error
    try:
        while True:
            event = await inbox.events.get()
            if isinstance(event, EngineStoppedError):
                raise failures.model_unavailable("the engine stopped while it worked on this request")
            if isinstance(event, BaseException):
                raise event
            if isinstance(event, Tally):
                yield event
                return
            for result in event:
                yield result
    finally:
        job.stop()
        done()
