"""A request of several rounds that is given up after any of its answers runs no further forward."""

import queue
import threading
from collections.abc import Generator, Sequence
from typing import Any

import pytest
import tiny_models
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dicast_server.decisions.passes import Pass, Scores
from dicast_server.engine.reader import Reader, Tally, Work
from dicast_server.engine.thread import Engine, Job

PATIENCE_S = 30
PREFIX = tuple(range(40))
LABELS = tuple(range(60, 68))
FORWARDS_OF_PREFIX = 2


class ScriptedRounds:
    """As many passes a round as it is told, each with a tail of its own, which is its answer too."""

    def __init__(self, sizes: Sequence[int]) -> None:
        tails = iter(range(sum(sizes)))
        self._rounds = [[Pass((*PREFIX, next(tails)), LABELS) for _ in range(size)] for size in sizes]
        self._current: list[Pass] = []
        self.received: list[int] = []

    def next_round(self) -> Sequence[Pass]:
        self._current = self._rounds.pop(0) if self._rounds else []
        return self._current

    def receive(self, index: int, scores: Scores) -> list[int]:
        self.received.append(self._current[index].tokens[-1])
        return self.received[-1:]


class GivesUp:
    """A caller who stops its job, from within, when it has heard so many answers."""

    def __init__(self, after: int) -> None:
        self._after = after
        self._submitted: queue.Queue[Job[int]] = queue.Queue()
        self.heard: list[int] = []
        self.ended = threading.Event()

    def is_of(self, job: Job[int]) -> None:
        self._submitted.put(job)

    def results(self, results: Sequence[int]) -> None:
        self.heard += results
        if len(self.heard) == self._after:
            self._submitted.get(timeout=PATIENCE_S).stop()

    def finished(self, tally: Tally) -> None:
        self.ended.set()

    def failed(self, error: BaseException) -> None:
        raise error


@pytest.fixture(scope="module")
def engine() -> Generator[Engine]:
    loaded: queue.Queue[Any] = queue.Queue()
    engine = Engine(lambda: Reader(tiny_models.family("llama"), LABELS, 32))
    engine.start(lambda reader, error: loaded.put(error))
    assert loaded.get(timeout=PATIENCE_S) is None
    yield engine
    engine.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.data())
def test_a_request_that_is_given_up_between_rounds_runs_no_further_forward(
    engine: Engine, sizes: list[int], data: st.DataObject
) -> None:
    after = data.draw(st.integers(1, sum(sizes)))
    given_up, other = GivesUp(after), GivesUp(0)
    rounds = ScriptedRounds(sizes)
    job = engine.submit(Work((PREFIX,), rounds, isolated=True).start, given_up)
    given_up.is_of(job)
    # Whoever takes turns with it is not disturbed, and outlives it.
    others = ScriptedRounds([sum(sizes) + 1])
    engine.submit(Work((PREFIX,), others, isolated=True).start, other)
    assert other.ended.wait(PATIENCE_S)
    assert given_up.heard == rounds.received == list(range(after))
    assert job.tally.forwards == FORWARDS_OF_PREFIX + after
    assert others.received == list(range(sum(sizes) + 1))
