"""Child processes that come up one after another and go down in the reverse order."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Any, TypeAlias

from dicast.cli.command import CommandError

GRACE_S = 40.0
"""Seconds that a child may take to finish its work before it is killed; more than it gives itself."""

# Waits are cut into these: a signal that comes just before a wait begins does not interrupt it, and its
# handler runs only between two.
_GLANCE_S = 0.25

# Runs as the child, before the child's own program. On Linux it asks the kernel for a SIGTERM should this
# process die without a word (kill -9); other systems have no such request, and there the children stay.
_TETHER = """
import os, signal, sys
parent, argv = int(sys.argv[1]), sys.argv[2:]
if sys.platform == "linux":
    import ctypes
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit("the parent is gone")
os.execv(argv[0], argv)
"""


class ChildFailed(CommandError):
    """A child ended by itself, or did not do in time what it was waited for."""


class Stopped(Exception):
    """A signal asked for the end: SIGINT or SIGTERM."""


@dataclass(frozen=True, slots=True)
class Command:
    """A program to run as a child.

    Attributes:
        name: for messages, for example "engine".
        argv: the program's path and its arguments.
        announces: the word before the address in the line `grpc 127.0.0.1:50051`, which the program prints
            on its stdout once it listens.
    """

    name: str
    argv: tuple[str, ...]
    announces: str


@dataclass(slots=True, eq=False)
class _Child:
    command: Command
    process: subprocess.Popen[str]
    address: str | None = None
    code: int | None = None
    threads: list[threading.Thread] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Announced:
    child: _Child
    address: str


@dataclass(frozen=True, slots=True)
class _Ended:
    child: _Child
    code: int


@dataclass(frozen=True, slots=True)
class _Signalled:
    number: int


_Event: TypeAlias = "_Announced | _Ended | _Signalled"


class Group:
    """Children that live and end together, within a `with` block of the main thread.

    Leaving the block stops them, the last one first, each with SIGTERM and time to finish. While it is
    open, SIGINT and SIGTERM raise Stopped out of the method that waits; the children, each in a session of
    its own, do not get the terminal's. A second signal kills what has not ended yet. What children write
    to stderr, and what they print besides their address, goes to stderr.

    Every waiting method raises ChildFailed when a child ends by itself.
    """

    def __init__(self, *, grace_s: float = GRACE_S) -> None:
        self._grace_s = grace_s
        self._children: list[_Child] = []
        # SimpleQueue, whose put may interrupt its own get: signal handlers run inside of it.
        self._events: SimpleQueue[_Event] = SimpleQueue()
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Group:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    def start(self, command: Command) -> None:
        """Start a child."""
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _TETHER, str(os.getpid()), *command.argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        child = _Child(command, process)
        for work in (self._read, self._wait):
            thread = threading.Thread(target=work, args=(child,), name=command.name, daemon=True)
            child.threads.append(thread)
            thread.start()
        self._children.append(child)

    def address(self, name: str, patience_s: float) -> str:
        """The address that a child announced, once it has."""
        (child,) = (each for each in self._children if each.command.name == name)
        for _ in self._until(time.monotonic() + patience_s):
            if child.address is not None:
                return child.address
        raise ChildFailed(f"the {name} did not listen within {patience_s:g} s")

    def pause(self, seconds: float) -> None:
        """Wait, with an eye on the children."""
        for _ in self._until(time.monotonic() + seconds):
            pass

    def wait(self) -> None:
        """Wait for a signal, which raises Stopped, or for a child to end, which raises ChildFailed."""
        while True:
            self._take(_GLANCE_S)

    def stop(self) -> None:
        """Stop the children, the last one first."""
        grace_s = self._grace_s
        # A signal that nobody has waited for yet asked for this very end; only a later one is in a hurry.
        with contextlib.suppress(Empty):
            while True:
                self._note(self._events.get_nowait())
        for child in reversed(self._children):
            if child.code is None:
                child.process.terminate()
                if not self._ended(child, grace_s):
                    grace_s = 0.0  # whoever is in a hurry is so for the others too
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(child.process.pid, signal.SIGKILL)
            for thread in child.threads:
                thread.join(1.0)
            if child.process.stdout is not None and not child.threads[0].is_alive():
                child.process.stdout.close()
        self._children.clear()

    def _until(self, deadline: float) -> Iterator[None]:
        yield
        while (left := deadline - time.monotonic()) > 0:
            self._take(min(left, _GLANCE_S))
            yield

    def _take(self, timeout_s: float) -> None:
        try:
            event = self._events.get(timeout=timeout_s)
        except Empty:
            return
        self._note(event)
        if isinstance(event, _Ended):
            name = event.child.command.name
            raise ChildFailed(f"the {name} ended by itself, {_ending(event.code)}; its log says why")
        if isinstance(event, _Signalled):
            raise Stopped

    def _ended(self, child: _Child, grace_s: float) -> bool:
        deadline = time.monotonic() + grace_s
        while child.code is None:
            left = deadline - time.monotonic()
            try:
                event = self._events.get(timeout=min(max(0.0, left), _GLANCE_S))
            except Empty:
                if left <= 0:
                    return False
                continue
            if isinstance(event, _Signalled):
                return False
            self._note(event)
        return True

    def _note(self, event: _Event) -> None:
        match event:
            case _Announced():
                event.child.address = event.address
            case _Ended():
                event.child.code = event.code

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._events.put(_Signalled(number))

    def _read(self, child: _Child) -> None:
        wanted = re.compile(rf"{re.escape(child.command.announces)} (\S+:\d+)")
        announced = False
        assert child.process.stdout is not None
        for line in child.process.stdout:
            found = wanted.fullmatch(line.strip())
            if found and not announced:
                announced = True
                self._events.put(_Announced(child, found[1]))
            else:
                sys.stderr.write(line)

    def _wait(self, child: _Child) -> None:
        self._events.put(_Ended(child, child.process.wait()))


def _ending(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"
