"""The engine against its limits and, where there is one, against llama.cpp on the same weights.

    .venv/bin/python benchmarks/engine.py [--runs N] [--json FILE]
        [--llama-server PATH --llama-model LABEL=FILE.gguf ... [--llama-bindings PATH]]

Each model file is a column; the file needs the metadata that llama.cpp's /v1/systemone asks for. With
llama-cpp-python's package (and those that it imports) on a path, its batch API on the library beside the
server is another column a file. All run with the same number of threads, in turn, on states of which none
has read one before; W3 asks about the state of W2 again. Without llama.cpp its columns are left out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from decide import WORKLOADS, Engine, timed
from peers import dicast_server, llama_batch, llama_server, requests, throughputs

from dicast import Predicate
from dicast_server.engine.reader import Tally, alone
from dicast_server.engine.thread import Engine as EngineThread
from dicast_server.engine.thread import Job

FIRST_PORT = 18_943
STORE_BYTES = 2**30


class Heard:
    """Listens to a request: when it ended, and after how many forwards of its own."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self.at = 0.0
        self.forwards = 0

    def results(self, results: Sequence[Any]) -> None:
        """Answers are not read here."""

    def finished(self, tally: Tally) -> None:
        """Note when."""
        self.at, self.forwards = time.perf_counter(), tally.forwards
        self._ended.set()

    def failed(self, error: BaseException) -> None:
        """Nothing fails here."""
        raise error

    def wait(self) -> float:
        """The time of its end."""
        self._ended.wait()
        return self.at


class Shared:
    """The embedded model on an engine thread, as it is served, and a note of every forward."""

    def __init__(self) -> None:
        self.forwards: list[float] = []
        self._changed = threading.Condition()
        ready = threading.Event()
        self.thread = EngineThread(self._load)
        self.thread.start(lambda reader, error: ready.set())
        ready.wait()

    def _load(self) -> Any:
        self.engine = Engine()
        reader = self.engine.served.reader
        forward = reader.head.forward

        def noted(*arguments: Any) -> Any:
            start = time.perf_counter()
            output = forward(*arguments)
            with self._changed:
                self.forwards.append(time.perf_counter() - start)
                self._changed.notify_all()
            return output

        reader.head.forward = noted  # type: ignore[method-assign,assignment]
        return reader

    def read_state(self, note: str, tokens: int) -> Job[Any]:
        """Start to read a long state."""
        work = self.engine.planner.prewarm(f"{note}. " + "a " * tokens, 0.0, "", "")
        return self.thread.submit(work.start, Heard())

    def ask(self, note: str) -> tuple[float, Heard]:
        """Ask a small question: seconds."""
        heard = Heard()
        work = self.engine.work(f"{note}. " + WORKLOADS["W1"]["state"], {"q": Predicate("Is it late?")})
        start = time.perf_counter()
        self.thread.submit(work.start, heard)
        return heard.wait() - start, heard

    def after(self, forwards: int) -> int:
        """Wait until so many more forwards have run; how many have then."""
        with self._changed:
            target = len(self.forwards) + forwards
            self._changed.wait_for(lambda: len(self.forwards) >= target)
            return len(self.forwards)


def prefill(engine: Engine, tokens: int, runs: int) -> float:
    """Tokens a second of a state that is read for the first time."""
    reader, rates = engine.served.reader, []
    for run in range(runs + 1):
        work = engine.planner.prewarm(f"Run {run}. " + "a " * tokens, 0.0, "", "")
        start = time.perf_counter()
        for _ in alone(reader.prewarm(work, Tally())):
            pass
        rates.append(len(work.prefix) / (time.perf_counter() - start))
    return median(rates[1:])


def per_question(engine: Engine, runs: int) -> dict[int, float]:
    """Milliseconds of a question over a kept state of 1,000 tokens: the first 16, and 16 around the 64th."""
    state = WORKLOADS["W2"]["state"]
    counts = (16, 56, 72)
    times: dict[int, list[float]] = {count: [] for count in counts}
    for run, count in itertools.product(range(runs + 1), counts):
        asked = {f"q{n}": Predicate(f"Is number {n:02} of the list right?") for n in range(count)}
        into: list[float] = []
        timed(into, lambda asked=asked: engine.shared(state, asked))  # type: ignore[misc]
        if run:  # the first reads the state
            times[count] += into
    took = {count: median(each) for count, each in times.items()}
    return {8: 1e3 * took[16] / 16, 64: 1e3 * (took[72] - took[56]) / 16}


def sharing(runs: int) -> dict[str, float]:
    """A small request alone and beside a state of 4,000 tokens, and forwards that run after a cancel."""
    shared = Shared()
    shared.ask("Warm")
    alone, beside, late, forward = [], [], [], []
    for run in range(runs):
        alone.append(shared.ask(f"Alone {run}")[0])
        job = shared.read_state(f"Long {run}", 4000)
        shared.after(3)
        first = len(shared.forwards)
        seconds, small = shared.ask(f"Beside {run}")
        others = len(shared.forwards) - first - small.forwards
        beside.append(seconds)
        forward.append(others)
        job.stop()
        stopped = len(shared.forwards)
        shared.ask(f"Behind {run}")
        late.append(len(shared.forwards) - stopped - small.forwards)
    shared.thread.close()
    return {
        "alone_ms": 1e3 * median(alone),
        "beside_ms": 1e3 * median(beside),
        "others_forwards": max(forward),
        "forwards_after_cancel": max(late),
    }


def growth(engine: Engine) -> dict[str, int]:
    """A state of 2,000 tokens that grows by 100: tokens that are computed."""
    computed = []
    for tokens in (2000, 2100):
        work = engine.planner.prewarm("Grows. " + "a " * tokens, 0.0, "", "")
        tally = Tally()
        for _ in alone(engine.served.reader.prewarm(work, tally)):
            pass
        computed.append(tally.input_tokens - tally.cached_tokens)
    return {"first": computed[0], "grown": computed[1]}


def main(argv: Sequence[str]) -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="counted runs (default 3)")
    parser.add_argument("--seconds", type=float, default=20, help="of W5 (default 20)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of each server (default: all)")
    parser.add_argument("--json", type=Path, default=Path("engine.json"), help="where to write the results")
    parser.add_argument("--llama-server", help="llama.cpp's server program")
    parser.add_argument("--llama-model", action="append", default=[], metavar="LABEL=FILE", help="a column")
    parser.add_argument("--llama-bindings", metavar="PATH", help="where `import llama_cpp` finds its package")
    options = parser.parse_args(argv)
    results: dict[str, Any] = {"threads": options.threads}
    if not options.llama_server:
        print("llama.cpp is absent: its columns are left out")
    engine = Engine(store_bytes=STORE_BYTES)
    with ExitStack() as servers:
        asks = {"dicast": servers.enter_context(dicast_server(options.threads))}
        for place, column in enumerate(options.llama_model if options.llama_server else []):
            label, _, file = column.partition("=")
            server = llama_server(options.llama_server, file, options.threads, FIRST_PORT + place)
            asks[f"llama.cpp {label}"] = servers.enter_context(server)
            if options.llama_bindings:
                library = str(Path(options.llama_server).parent)
                batch = llama_batch(options.llama_bindings, library, file, options.threads, engine)
                asks[f"its batch API {label}"] = servers.enter_context(batch)
        results["requests_ms"] = requests(asks, options.runs)
        results["decisions_per_s"] = throughputs(asks, options.seconds, options.runs)
    results["prefill_tokens_per_s"] = prefill(engine, 1000, options.runs)
    results["ms_per_question"] = per_question(engine, options.runs)
    results["growth"] = growth(engine)
    results["sharing"] = sharing(options.runs)
    options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))


def table(results: dict[str, Any]) -> str:
    """The results for people."""
    names = list(results["requests_ms"])
    lines = ["| | " + " | ".join(names) + " | times faster |", "|---|" + "---|" * (len(names) + 1)]
    for workload in results["requests_ms"]["dicast"]:
        values = [results["requests_ms"][name][workload] for name in names]
        shown = " | ".join(f"{value:,.0f}" for value in values)
        lines.append(f"| {workload}, ms | {shown} | {_times(value / values[0] for value in values[1:])} |")
    rates = [results["decisions_per_s"][name] for name in names]
    shown = " | ".join(f"{rate:.2f}" for rate in rates)
    lines.append(f"| W5, decisions/s | {shown} | {_times(rates[0] / rate for rate in rates[1:])} |")
    eight, many = results["ms_per_question"][8], results["ms_per_question"][64]
    sharing, growth = results["sharing"], results["growth"]
    lines += [
        "",
        f"Prefill of 1,000 tokens: {results['prefill_tokens_per_s']:.0f} tokens/s.",
        f"A question over 1,000 tokens: {eight:.0f} ms of the first 16, {many:.0f} ms around the 64th "
        f"({many / eight - 1:+.0%}).",
        f"A small request: {sharing['alone_ms']:.0f} ms alone; beside a state of 4,000 tokens "
        f"{sharing['beside_ms']:.0f} ms, {sharing['others_forwards']} forwards of the other among them.",
        f"Forwards of a request after its cancel: {sharing['forwards_after_cancel']}.",
        f"A state of 2,000 tokens: {growth['first']} computed; grown by 100: {growth['grown']}.",
    ]
    return "\n".join(lines)


def _times(ratios: Iterable[float]) -> str:
    return ", ".join(f"{ratio:.2f}" for ratio in ratios)


if __name__ == "__main__":
    main(sys.argv[1:])
