"""Turns, cancels and faults on the engine thread, with scripted work and no model."""

import queue
import threading
import weakref
from collections.abc import Generator, Sequence
from typing import Any

import pytest

from dicast_server.engine.reader import Tally
from dicast_server.engine.thread import Engine, EngineStoppedError

PATIENCE_S = 30


class ScriptedReader:
    """Runs scripts of steps: results, an exception, or something to call."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.closed: list[str] = []

    def run(self, script: "Script", tally: Tally) -> Generator[list[Any], None, list[Any]]:
        results: list[Any] = []
        try:
            for place, step in enumerate(script.steps):
                if place:
                    yield results
                self.log.append(script.name)
                tally.forwards += 1
                if isinstance(step, BaseException):
                    raise step
                if callable(step):
                    step()
                results = [] if callable(step) else step
            return results
        finally:
            self.closed.append(script.name)


class Script:
    def __init__(self, name: str, *steps: Any) -> None:
        self.name, self.steps = name, steps


class Mailbox:
    """A listener that a test can wait on."""

    def __init__(self) -> None:
        self.events: queue.Queue[Any] = queue.Queue()

    def results(self, results: Sequence[Any]) -> None:
        self.events.put(results)

    def finished(self, tally: Tally) -> None:
        self.events.put(tally)

    def failed(self, error: BaseException) -> None:
        self.events.put(error)

    def next(self) -> Any:
        return self.events.get(timeout=PATIENCE_S)


class Running:
    def __init__(self, max_active: int = 8, memory_bytes: int | None = None) -> None:
        self.reader = ScriptedReader()
        self.died = threading.Event()
        self.engine = Engine(lambda: self.reader, max_active, memory_bytes)  # type: ignore[arg-type,return-value]
        started = threading.Event()
        self.engine.start(lambda reader, error: started.set(), self.died.set)
        assert started.wait(PATIENCE_S)

    def submit(self, name: str, *steps: Any, nbytes: int = 0) -> tuple[Any, Mailbox]:
        mailbox = Mailbox()
        script = Script(name, *steps)
        return self.engine.submit(lambda _, tally: self.reader.run(script, tally), mailbox, nbytes), mailbox


@pytest.fixture
def running() -> Generator[Running]:
    running = Running()
    yield running
    running.engine.close()


class Gate:
    """A step that keeps the thread busy from when it is reached until it is opened."""

    def __init__(self) -> None:
        self._reached, self._opened = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self._reached.set()
        self._opened.wait(PATIENCE_S)

    def reached(self) -> None:
        assert self._reached.wait(PATIENCE_S)

    def open(self) -> None:
        self._opened.set()


def test_results_come_as_they_are_made_then_the_tally(running: Running) -> None:
    _, mailbox = running.submit("a", [1], [], [2, 3])
    assert [mailbox.next() for _ in range(3)] == [[1], [2, 3], Tally(forwards=3)]


def test_the_end_of_a_request_waits_for_nobodys_turn(running: Running) -> None:
    gate, later = Gate(), Gate()
    running.submit("gate", gate)
    gate.reached()
    _, short = running.submit("short", [1])
    running.submit("long", later)
    gate.open()
    later.reached()
    assert [short.next(), short.next()] == [[1], Tally(forwards=1)]
    later.open()


def test_requests_take_turns_of_one_forward(running: Running) -> None:
    gate = Gate()
    _, first = running.submit("gate", gate)
    gate.reached()
    boxes = [running.submit(name, *[[name]] * 3)[1] for name in "abc"]
    gate.open()
    for box in [first, *boxes]:
        while not isinstance(box.next(), Tally):
            pass
    assert "".join(running.reader.log).replace("gate", "") == "abcabcabc"


def test_no_more_than_the_allowed_number_take_turns() -> None:
    running = Running(max_active=2)
    gate = Gate()
    running.submit("gate", gate)
    gate.reached()
    boxes = [running.submit(name, [1], [2])[1] for name in "abc"]
    gate.open()
    for box in boxes:
        while not isinstance(box.next(), Tally):
            pass
    order = "".join(running.reader.log).replace("gate", "")
    # While "gate" runs only "a" takes turns with it; "b" enters as it ends, "c" as "a" ends.
    assert order.index("c") > order.rindex("a")
    running.engine.close()


def test_no_more_take_turns_than_fit_into_memory() -> None:
    running = Running(memory_bytes=100)
    gate = Gate()
    running.submit("gate", gate, nbytes=40)
    gate.reached()
    # "a" fits beside the gate; "b" does not, and "c" waits behind it; "d" is too large for any company.
    sizes = {"a": 60, "b": 41, "c": 1, "d": 1000}
    boxes = [running.submit(name, [1], [2], nbytes=size)[1] for name, size in sizes.items()]
    gate.open()
    for box in boxes:
        while not isinstance(box.next(), Tally):
            pass
    assert "".join(running.reader.log).replace("gate", "") == "aabcbcdd"
    running.engine.close()


def test_a_stopped_request_runs_no_further_forward(running: Running) -> None:
    gate = Gate()
    job, mailbox = running.submit("a", gate, [1], [2])
    gate.reached()
    _, other = running.submit("b", [1])
    job.stop()
    gate.open()
    while not isinstance(other.next(), Tally):
        pass
    assert running.reader.log.count("a") == 1
    assert "a" in running.reader.closed
    assert mailbox.events.empty()


def test_a_request_stopped_in_its_last_forward_hears_nothing(running: Running) -> None:
    gate = Gate()
    job, mailbox = running.submit("a", gate)
    gate.reached()
    job.stop()
    gate.open()
    _, other = running.submit("b", [1])
    while not isinstance(other.next(), Tally):
        pass
    assert mailbox.events.empty()


def test_an_idle_engine_keeps_nothing_of_its_last_request(running: Running) -> None:
    job, mailbox = running.submit("a", [1])
    while not isinstance(mailbox.next(), Tally):
        pass
    left = weakref.ref(mailbox)
    ended = threading.Event()
    weakref.finalize(mailbox, ended.set)
    del job, mailbox
    assert ended.wait(PATIENCE_S), left()


def test_a_request_stopped_while_it_waits_never_runs(running: Running) -> None:
    gate = Gate()
    running.submit("gate", gate)
    gate.reached()
    job, mailbox = running.submit("a", [1])
    job.stop()
    gate.open()
    _, other = running.submit("b", [1])
    while not isinstance(other.next(), Tally):
        pass
    assert "a" not in running.reader.log
    assert mailbox.events.empty()


def test_a_fault_ends_its_own_request_alone(running: Running) -> None:
    gate = Gate()
    running.submit("gate", gate)
    gate.reached()
    _, bad = running.submit("bad", [1], ValueError("a fault"))
    _, good = running.submit("good", [1], [2], [3])
    gate.open()
    assert bad.next() == [1]
    assert isinstance(bad.next(), ValueError)
    assert [good.next() for _ in range(4)] == [[1], [2], [3], Tally(forwards=3)]
    assert running.engine.alive


def test_the_threads_death_fails_all_waiters_and_is_told() -> None:
    running = Running()
    gate = Gate()
    running.submit("gate", gate)
    gate.reached()
    _, fatal = running.submit("fatal", SystemExit("the end"))
    _, waiting = running.submit("waiting", [1])
    gate.open()
    assert running.died.wait(PATIENCE_S)
    assert isinstance(waiting.next(), EngineStoppedError)
    assert isinstance(fatal.next(), EngineStoppedError)
    with pytest.raises(EngineStoppedError):
        running.submit("late", [1])
    assert not running.engine.alive


def test_closing_fails_what_is_left_and_takes_nothing_more() -> None:
    running = Running()
    gate = Gate()
    running.submit("gate", gate)
    gate.reached()
    _, waiting = running.submit("waiting", [1])
    closer = threading.Thread(target=running.engine.close)
    closer.start()
    gate.open()
    closer.join(PATIENCE_S)
    left = [waiting.next()]
    while not isinstance(left[-1], EngineStoppedError | Tally):
        left.append(waiting.next())
    assert isinstance(left[-1], EngineStoppedError)
    assert not running.died.is_set()
    with pytest.raises(EngineStoppedError):
        running.submit("late", [1])


def test_a_reader_that_cannot_be_built_is_reported() -> None:
    heard: queue.Queue[Any] = queue.Queue()

    def load() -> Any:
        raise OSError("no such model")

    engine = Engine(load)
    engine.start(lambda reader, error: heard.put((reader, error)))
    reader, error = heard.get(timeout=PATIENCE_S)
    assert reader is None
    assert str(error) == "no such model"
    engine.close()


def test_everything_runs_on_one_thread() -> None:
    running = Running()
    names: set[str] = set()
    _, mailbox = running.submit("a", lambda: names.add(threading.current_thread().name), [1])
    while not isinstance(mailbox.next(), Tally):
        pass
    assert names == {"dicast-engine"}
    running.engine.close()
