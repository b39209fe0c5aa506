"""Who answers the same requests: dicast over gRPC, llama.cpp by its /v1/systemone and by its batch API."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from decide import WORKLOADS, Engine, child, questions, side_by_side, timed

from dicast import Client, Letters, Options

BRACKET = Options(readout=Letters(style="bracket"))
CLIENTS = 8
Ask = Callable[[str, str], None]
"""Asks a workload's questions about a state."""


@contextmanager
def dicast_server(threads: int) -> Iterator[Ask]:
    """A server of ours, asked over gRPC in llama.cpp's option style."""
    command = (
        sys.executable,
        "-m",
        "dicast.cli",
        "serve",
        "--no-adapter",
        "--grpc-port",
        "0",
        "--threads",
        str(threads),
    )
    with child(*command) as (address, _), Client(address, timeout_s=600) as client:
        while client.model().status == "starting":
            time.sleep(0.1)
        yield lambda state, workload: _answered(
            len(client.decide(state, questions(workload), options=BRACKET))
        )


@contextmanager
def llama_server(program: str, model: str, threads: int, port: int) -> Iterator[Ask]:
    """llama.cpp's server, asked over HTTP; the model file needs its decision metadata."""
    base = f"http://127.0.0.1:{port}"
    command = [program, "-m", model, "--host", "127.0.0.1", "--port", str(port), "-c", "16384"]
    command += ["-t", str(threads), "-tb", str(threads), "--kv-unified"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:
        try:
            while _get(base + "/health") is None:
                assert process.poll() is None, "llama-server ended"
                time.sleep(0.1)
            yield lambda state, workload: _ask_http(base, state, workload)
        finally:
            process.terminate()


@contextmanager
def llama_batch(bindings: str, library: str, model: str, threads: int, engine: Engine) -> Iterator[Ask]:
    """llama.cpp's batch API through llama-cpp-python, over a library of one's own; prompts are in tokens."""
    command = [sys.executable, str(Path(__file__).parent / "llama_batch.py"), model, str(threads)]
    there = {"PYTHONPATH": bindings, "LLAMA_CPP_LIB_PATH": library, "LD_LIBRARY_PATH": library}
    turn = threading.Lock()
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | there,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", "the batch API did not start"

        def ask(state: str, workload: str) -> None:
            work = engine.work(state, questions(workload), BRACKET)
            prompts = json.dumps([pass_.tokens for pass_ in work.rounds.next_round()])
            with turn:
                print(prompts, file=process.stdin, flush=True)
                _answered(int(process.stdout.readline()))  # type: ignore[union-attr]

        try:
            yield ask
        finally:
            process.terminate()


def _get(url: str) -> bytes | None:
    try:
        with urllib.request.urlopen(url, timeout=2) as reply:
            return bytes(reply.read())
    except OSError:
        return None


def _ask_http(base: str, state: str, workload: str) -> None:
    body = json.dumps({"state": state, "questions": WORKLOADS[workload]["questions"]}).encode()
    request = urllib.request.Request(base + "/v1/systemone", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        _answered(len(json.load(reply)["answers"]))


def _answered(count: int) -> None:
    assert count, "no answers"


def requests(asks: dict[str, Ask], runs: int) -> dict[str, Any]:
    """Milliseconds of W1 to W4, medians."""
    times: dict[str, dict[str, list[float]]] = {name: {} for name in asks}
    for run, (name, ask) in itertools.product(range(runs + 1), asks.items()):
        for workload in ("W1", "W4", "W2", "W3"):
            state = f"Note {7000 + run}. " + WORKLOADS["W2" if workload == "W3" else workload]["state"]
            into: list[float] = []
            timed(into, partial(ask, state, workload))
            if run:  # the first warms up
                times[name].setdefault(workload, []).extend(into)
    return {
        name: {workload: 1e3 * median(values) for workload, values in sorted(by.items())}
        for name, by in times.items()
    }


def throughputs(asks: dict[str, Ask], seconds: float, runs: int) -> dict[str, float]:
    """Decisions a second of eight clients with states of their own, W1's questions each; medians."""
    rates: dict[str, list[float]] = {name: [] for name in asks}
    for run, (name, ask) in itertools.product(range(runs), asks.items()):
        rates[name].append(_throughput(ask, seconds, f"Run {run}."))
    return {name: median(each) for name, each in rates.items()}


def _throughput(ask: Ask, seconds: float, note: str) -> float:
    numbers, done = itertools.count(), itertools.count()
    end = time.monotonic() + seconds

    def work() -> None:
        while time.monotonic() < end:
            ask(f"{note} Message {next(numbers)}. " + WORKLOADS["W1"]["state"], "W1")
            next(done)

    took = side_by_side(work, CLIENTS)
    return 3 * next(done) / took
