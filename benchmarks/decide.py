"""What sharing a state saves, and what gRPC and the gateway add: one run, medians and ratios.

    .venv/bin/python benchmarks/decide.py [--runs N] [--json FILE]

The plain way is mlx-lm's: one full prompt a question, on the same weights, threads and process. The
overhead of gRPC and of the gateway is that over an engine that answers at once, in processes of their
own. The resident memory is that of a server that has answered W1 and W2.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import dicast
from dicast import Choice, Options, Predicate, Score
from dicast._encode import decide_request
from dicast_server import caches
from dicast_server.decisions.answers import Answer
from dicast_server.decisions.passes import Scores
from dicast_server.engine.reader import Steps, Tally, Work, alone
from dicast_server.readouts.scores import softmax
from dicast_server.service.calls import Deadlines
from dicast_server.service.catalogue import Catalogue
from dicast_server.service.host import Host
from dicast_server.service.limits import Limits
from dicast_server.service.loading import Served, load_served
from dicast_server.service.registry import Registry
from dicast_server.service.requests import read_request
from dicast_server.service.server import Address, Server

WORKLOADS = json.loads((Path(__file__).parent / "workload.json").read_text())
REGISTRY = Registry.installed()
SMALL = {"late": Predicate("Is the parcel late?")}


def questions(workload: str) -> dict[str, Predicate | Choice | Score]:
    """A workload's questions, from System One's form."""
    asked: dict[str, Predicate | Choice | Score] = {}
    for key, body in WORKLOADS[workload]["questions"].items():
        text, criteria = body["instructions"], body.get("criteria")
        if body["type"] == "choice":
            asked[key] = Choice(text, criteria)
        elif body["type"] == "score":
            asked[key] = Score(text, criteria)
        else:
            sides = criteria or {}
            asked[key] = Predicate(text, when_true=sides.get("true"), when_false=sides.get("false"))
    return asked


class Engine:
    """The embedded model in this process."""

    def __init__(self, store_bytes: int = 0, threads: int | None = None) -> None:
        self.served = load_served(
            "smollm2-135m-instruct", caches.folder(), store_bytes=store_bytes, threads=threads
        )
        self.planner = self.served.planner(REGISTRY)

    def work(self, state: str, asked: Any, options: Options | None = None) -> Work[Answer]:
        """A planned request."""
        return self.planner.plan(
            read_request(decide_request(state, asked, options=options), Limits(), REGISTRY)
        )

    def shared(self, state: str, asked: Any) -> list[tuple[float, ...]]:
        """dicast: the state once, tails in groups over it."""
        answers = [
            a for step in alone(self.served.reader.read(self.work(state, asked), Tally())) for a in step
        ]
        answers.sort(key=lambda answer: answer.question.index)
        read = [answer.diagnostics for answer in answers if answer.diagnostics is not None]
        return [softmax(diagnostics.passes[0].scores, 1.0) for diagnostics in read]

    def plain(self, state: str, asked: Any) -> list[tuple[float, ...]]:
        """mlx-lm: a full forward a question; the head at the last position alone, which is kind to it."""
        import mlx.core as mx

        model: Any = self.served.model.model
        read = []
        for pass_ in self.work(state, asked).rounds.next_round():
            hidden = model.model(mx.array([pass_.tokens]))[:, -1]
            scores = model.model.embed_tokens.as_linear(hidden)[0, mx.array(pass_.labels)]
            read.append(softmax(scores.tolist(), 1.0))
        return read


def compare(runs: int) -> dict[str, Any]:
    """Dicast against the plain way, in turn."""
    engine = Engine()
    rows: dict[str, Any] = {}
    for name in ("W1", "W2"):
        asked, state = questions(name), WORKLOADS[name]["state"]
        times: dict[str, list[float]] = {"plain": [], "dicast": []}
        for run in range(runs + 1):
            noted = f"Note {run}. {state}"
            plain = timed(times["plain"], partial(engine.plain, noted, asked))
            shared = timed(times["dicast"], partial(engine.shared, noted, asked))
            pairs = zip(itertools.chain(*plain), itertools.chain(*shared), strict=True)
            assert all(abs(p - q) < 1e-4 for p, q in pairs), f"{name}: the two ways differ"
        # The first of each warms up.
        plain_s, dicast_s = median(times["plain"][1:]), median(times["dicast"][1:])
        rows[name] = {"plain_ms": 1e3 * plain_s, "dicast_ms": 1e3 * dicast_s, "ratio": plain_s / dicast_s}
    return rows


def side_by_side(work: Callable[[], None], clients: int) -> float:
    """Run some work on as many threads as there are clients: seconds until all are done."""
    threads = [threading.Thread(target=work) for _ in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


def timed(into: list[float], run: Callable[[], Any]) -> Any:
    """Run and note the seconds that it took."""
    start = time.perf_counter()
    result = run()
    into.append(time.perf_counter() - start)
    return result


class InstantReader:
    """An engine's reader that needs no time."""

    def __init__(self, served: Served) -> None:
        self.head, self.store = served.reader.head, served.reader.store
        self.forward_tokens, self.footprint = served.reader.forward_tokens, served.reader.footprint
        self.whole_forward = served.reader.whole_forward

    def beside(self, number: int) -> InstantReader:
        """This one: nothing is adapted here."""
        return self

    def read(self, work: Work[Any], tally: Tally) -> Steps[Any]:
        """Score every label alike."""
        results: list[Any] = []
        yield results
        while passes := work.rounds.next_round():
            for index, pass_ in enumerate(passes):
                tally.input_tokens += len(pass_.tokens)
                results += work.rounds.receive(index, Scores((0.0,) * len(pass_.labels), 1.0))
        return results


async def serve_instantly() -> None:
    """The gRPC server over an engine that answers at once; until standard input ends."""

    def load() -> Served:
        served = load_served("smollm2-135m-instruct", caches.folder())
        return replace(served, reader=InstantReader(served))  # type: ignore[arg-type]

    host = Host(load, REGISTRY)
    server = Server(host, Catalogue(host, "instant"), Limits(), Deadlines())
    port = await server.listen(Address("127.0.0.1", 0))
    await server.make_ready()
    print(f"grpc 127.0.0.1:{port}", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.drain()


@contextmanager
def child(*command: str) -> Iterator[tuple[str, int]]:
    """A child process that prints its address first: address and process id."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1], process.pid
        finally:
            process.terminate()


def overhead(runs: int) -> dict[str, Any]:
    """What gRPC and the gateway add to a small request."""
    engine = Engine()
    instant = InstantReader(engine.served)
    state = "Parcel 7 has not moved for nine days."
    body = json.dumps(
        {"state": state, "questions": {"late": {"type": "noul", "instructions": "Is the parcel late?"}}}
    ).encode()
    times: dict[str, list[float]] = {"in process": [], "grpc": [], "gateway": []}
    dicast_command = (sys.executable, "-m", "dicast.cli")
    with (
        child(sys.executable, __file__, "--serve-instantly") as (grpc_address, _),
        child(*dicast_command, "gateway", "--http-port", "0", "--server", grpc_address) as (http_address, _),
        dicast.Client(grpc_address) as client,
    ):
        connection = http.client.HTTPConnection(http_address)

        def post() -> bytes:
            connection.request("POST", "/v1/systemone", body, {"content-type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
            assert response.status == 200, answer
            return answer

        for run in range(runs + 20):
            if run == 20:
                times = {name: [] for name in times}
            timed(times["in process"], lambda: list(alone(instant.read(engine.work(state, SMALL), Tally()))))
            timed(times["grpc"], lambda: client.decide(state, SMALL))
            timed(times["gateway"], post)
        connection.close()
    ms = {name: 1e3 * median(values) for name, values in times.items()}
    return {
        **{f"{name.replace(' ', '_')}_ms": value for name, value in ms.items()},
        "grpc_adds_ms": ms["grpc"] - ms["in process"],
        "gateway_adds_ms": ms["gateway"] - ms["grpc"],
    }


def memory() -> dict[str, Any]:
    """Resident memory of a server after W1 and W2, in MiB."""
    with child(sys.executable, "-m", "dicast.cli", "serve", "--no-adapter", "--grpc-port", "0") as (
        address,
        process_id,
    ):
        with dicast.Client(address) as client:
            while client.model().status == "starting":
                time.sleep(0.1)
            for name in ("W1", "W2"):
                client.decide(WORKLOADS[name]["state"], questions(name), timeout_s=300)
        return {"resident_mib": resident_mib(process_id)}


def resident_mib(process_id: int) -> float:
    """Resident memory of a process, in MiB."""
    shown = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(process_id)], capture_output=True, text=True, check=True
    )
    return int(shown.stdout) / 1024


def table(results: dict[str, Any]) -> str:
    """The results for people."""
    lines = ["| request | plain, ms | dicast, ms | times faster |", "|---|---|---|---|"]
    for name, row in results["compare"].items():
        lines.append(f"| {name} | {row['plain_ms']:.0f} | {row['dicast_ms']:.0f} | {row['ratio']:.2f} |")
    added = results["overhead"]
    lines += [
        "",
        "| small request, engine answers at once | median, ms | added, ms |",
        "|---|---|---|",
        f"| in process | {added['in_process_ms']:.2f} | |",
        f"| gRPC | {added['grpc_ms']:.2f} | {added['grpc_adds_ms']:.2f} |",
        f"| gateway | {added['gateway_ms']:.2f} | {added['gateway_adds_ms']:.2f} |",
        "",
        f"Resident memory of a server after W1 and W2: {results['memory']['resident_mib']:.0f} MiB.",
    ]
    return "\n".join(lines)


def main(argv: Sequence[str]) -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="counted runs of W1 and W2 (default 5)")
    parser.add_argument("--calls", type=int, default=300, help="counted small requests (default 300)")
    parser.add_argument("--json", type=Path, default=Path("decide.json"), help="where to write the results")
    parser.add_argument("--serve-instantly", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.serve_instantly:
        asyncio.run(serve_instantly())
        return
    results = {
        "processors": os.cpu_count(),
        "overhead": overhead(options.calls),
        "memory": memory(),
        "compare": compare(options.runs),
    }
    options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))


if __name__ == "__main__":
    main(sys.argv[1:])
