"""The engine against its limits and, where there is one, against llama.cpp on the same weights.

    .venv/bin/python benchmarks/engine.py [--runs N] [--json FILE]
        [--llama-server PATH --llama-model FILE.gguf]

llama.cpp's server answers /v1/systemone itself; the model file needs its decision metadata. Where it is
absent its column is left out. Both run with the same number of threads, in turn, on states of which
neither has read one before; W3 asks about the state of W2 again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from decide import WORKLOADS, Engine, child, questions, timed

from dicast import Client, Letters, Options, Predicate
from dicast_server.engine.reader import Tally

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
def llama_server(program: str, model: str, threads: int, port: int = 18_943) -> Iterator[Ask]:
    """llama.cpp's server, asked over HTTP."""
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


def prefill(engine: Engine, tokens: int, runs: int) -> float:
    """Tokens a second of a state that is read for the first time."""
    reader, rates = engine.served.reader, []
    for run in range(runs + 1):
        work = engine.planner.prewarm(f"Run {run}. " + "a " * tokens, 0.0, "", "")
        start = time.perf_counter()
        for _ in reader.prewarm(work, Tally()):
            pass
        rates.append(len(work.prefix) / (time.perf_counter() - start))
    return median(rates[1:])


def per_question(engine: Engine, count: int, runs: int) -> float:
    """Milliseconds that one more question costs, over a state of 1,000 tokens; its reading cancels out."""
    state = WORKLOADS["W2"]["state"]

    def seconds(questions: int) -> float:
        asked = {f"q{n}": Predicate(f"Is number {n:02} of the list right?") for n in range(questions)}
        times: list[float] = []
        for _ in range(runs):
            timed(times, lambda: engine.shared(state, asked))
        return median(times)

    seconds(1)
    return 1e3 * (seconds(count) - seconds(count // 2)) / (count - count // 2)


def main(argv: Sequence[str]) -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="counted runs (default 3)")
    parser.add_argument("--seconds", type=float, default=20, help="of W5 (default 20)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of each server (default: all)")
    parser.add_argument("--json", type=Path, default=Path("engine.json"), help="where to write the results")
    parser.add_argument("--llama-server", help="llama.cpp's server program")
    parser.add_argument("--llama-model", help="its model file")
    options = parser.parse_args(argv)
    results: dict[str, Any] = {"threads": options.threads}
    peer: Any = nullcontext()
    if options.llama_server:
        peer = llama_server(options.llama_server, options.llama_model, options.threads)
    else:
        print("llama.cpp is absent: its column is left out")
    with dicast_server(options.threads) as ours, peer as theirs:
        asks = {"dicast": ours, **({"llama.cpp": theirs} if theirs is not None else {})}
        results["requests_ms"] = requests(asks, options.runs)
        results["decisions_per_s"] = {name: throughput(ask, options.seconds) for name, ask in asks.items()}
    engine = Engine()
    results["prefill_tokens_per_s"] = prefill(engine, 1000, options.runs)
    results["ms_per_question"] = {n: per_question(engine, n, options.runs) for n in (8, 64)}
    options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))


def table(results: dict[str, Any]) -> str:
    """The results for people."""
    names = list(results["requests_ms"])
    lines = ["| | " + " | ".join(names) + " | times faster |", "|---|" + "---|" * (len(names) + 1)]
    for workload in results["requests_ms"]["dicast"]:
        values = [results["requests_ms"][name][workload] for name in names]
        shown = " | ".join(f"{value:,.0f}" for value in values)
        lines.append(f"| {workload}, ms | {shown} | {values[-1] / values[0]:.2f} |")
    rates = [results["decisions_per_s"][name] for name in names]
    shown = " | ".join(f"{rate:.2f}" for rate in rates)
    lines.append(f"| W5, decisions/s | {shown} | {rates[0] / rates[-1]:.2f} |")
    eight, many = results["ms_per_question"][8], results["ms_per_question"][64]
    lines += [
        "",
        f"Prefill of 1,000 tokens: {results['prefill_tokens_per_s']:.0f} tokens/s.",
        f"One more question: {eight:.0f} ms up to 8, {many:.0f} ms up to 64 ({many / eight - 1:+.0%}).",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
