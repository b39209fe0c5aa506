"""Servers that answer the same requests: dicast over gRPC, llama.cpp over its own /v1/systemone."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

from decide import WORKLOADS, child, questions, timed

from dicast import Client, Letters, Options

BRACKET = Options(readout=Letters(style="bracket"))
CLIENTS = 8
Ask = Callable[[str, str], None]
"""Asks a workload's questions about a state."""


@contextmanager
def dicast_server(threads: int) -> Iterator[Ask]:
    """A server of ours, asked over gRPC in llama.cpp's option style."""
    command = (sys.executable, "-m", "dicast.cli", "serve", "--grpc-port", "0", "--threads", str(threads))
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


def throughput(ask: Ask, seconds: float) -> float:
    """Decisions a second of eight clients with states of their own, W1's questions each."""
    numbers, done = itertools.count(), itertools.count()
    end = time.monotonic() + seconds

    def work() -> None:
        while time.monotonic() < end:
            ask(f"Message {next(numbers)}. " + WORKLOADS["W1"]["state"], "W1")
            next(done)

    threads = [threading.Thread(target=work) for _ in range(CLIENTS)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 3 * next(done) / (time.monotonic() - start)
