"""What an adapter costs beside the plain model: requests in turn, loading, memory.

    .venv/bin/python benchmarks/adapters.py [--runs N] [--threads N] [--json FILE]

The adapters are random ones of the embedded model, small and in all linear layers; an adapter's numbers do
not change what it costs. Both take the same forwards and requests in turn, and nothing is kept. Times are
those of the processor, so that others on the machine count little: the fastest of each, and the median.
"""

from __future__ import annotations

import argparse
import datetime as dt
import io
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import mlx.core as mx
from decide import REGISTRY, WORKLOADS, Engine, questions
from mlx import nn

from dicast._encode import decide_request
from dicast_server.adapters.document import Adapter, Base, Description, Training, TunedFor
from dicast_server.adapters.file import Contents
from dicast_server.engine.adapting import Adapting
from dicast_server.engine.reader import Reader, Tally, alone
from dicast_server.service.limits import Limits
from dicast_server.service.planning import Planner
from dicast_server.service.requests import read_request
from dicast_server.service.tuned import tuned

ADAPTERS = {
    "rank 8, q and v of 30 layers": (8, ("self_attn.q_proj", "self_attn.v_proj"), 0),
    "rank 16, all linear layers of the upper 10": (16, ("_proj",), 20),
    "rank 16, all linear layers of 30": (16, ("_proj",), 0),
}
"""Rank, ends of names, and the first layer."""


FORWARDS = (32, 320)
"""Tokens of the forwards that are measured: some questions behind a state, and a part of a state."""


def adapter(engine: Engine, rank: int, ends: tuple[str, ...], first: int) -> tuple[Adapter, bytes]:
    """A random adapter of the model."""
    loaded = engine.served.model
    linears = {
        path: module
        for path, module in loaded.model.named_modules()
        if type(module) is nn.Linear and path.endswith(ends) and int(path.split(".")[2]) >= first
    }
    tensors = {}
    for path, linear in linears.items():
        outputs, inputs = linear.weight.shape
        tensors[f"{path}.lora_a"] = 0.01 * mx.random.normal((inputs, rank))
        tensors[f"{path}.lora_b"] = 0.01 * mx.random.normal((rank, outputs))
    written = io.BytesIO()
    mx.save_safetensors(written, tensors)
    description = Description(
        name="random",
        base=Base(
            model=loaded.id,
            weights_hash=loaded.weights_hash,
            quantization=loaded.quantization,
            template_hash=loaded.frame.fingerprint,
            layers=len(loaded.model.layers),
        ),
        rank=rank,
        scale=2.0,
        modules=tuple(sorted(linears)),
        tuned_for=TunedFor(readout="letters", prompt_version=engine.planner.prompt_version),
        data_sha256="0" * 64,
        made=dt.datetime.now(dt.UTC),
        dicast_version="0",
        training=Training(rows=0, groups=0, epochs=0, steps=0, seed=0, learning_rate=1.0, seconds=0.0),
    )
    return Adapter.of(description, "0" * 64), written.getvalue()


def measure(engine: Engine, number: int, name: str, runs: int) -> dict[str, Any]:
    """One adapter against the plain model, in turn."""
    made, weights = adapter(engine, *ADAPTERS[name])
    reader, before = engine.served.reader, mx.get_active_memory()
    start = time.process_time()
    for _ in alone(
        Adapting(engine.served.model, made, weights, number, engine.served.machinery).start(reader, Tally())
    ):
        pass
    loading = time.process_time() - start
    memory = mx.get_active_memory() - before
    adapted = tuned(engine.served, Contents(made, weights), "random", number, REGISTRY.readouts).planner(
        REGISTRY
    )
    plain, beside = reader, reader.beside(number)
    ids = engine.served.model.frame.encode("a " * max(FORWARDS))
    ways: dict[str, tuple[Callable[[int], None], Callable[[int], None]]] = {
        f"{size} tokens": (partial(forward, plain, ids[:size]), partial(forward, beside, ids[:size]))
        for size in FORWARDS
    }
    ways["W1"] = partial(ask, engine, engine.planner), partial(ask, engine, adapted)
    ratios: dict[str, float] = {}
    for label, pair in ways.items():
        times: tuple[list[float], list[float]] = ([], [])
        for run in range(runs + 1):
            # Each goes first as often as the other.
            for which in (0, 1) if run % 2 else (1, 0):
                start = time.process_time()
                pair[which](run)
                times[which].append(time.process_time() - start)
        # The first warms up.
        ratios[label] = min(times[1][1:]) / min(times[0][1:])
        ratios[f"{label}, medians"] = median(times[1][1:]) / median(times[0][1:])
    return {"ratios": ratios, "loading_s": loading, "memory_mib": memory / 2**20, "base_mib": before / 2**20}


def forward(reader: Reader, ids: Sequence[int], run: int) -> None:
    """One forward and what is read at its end."""
    reader.head.read(reader.head.forward([ids], reader.empty.caches(1)), [ids[:4]])


def ask(engine: Engine, planner: Planner, run: int) -> None:
    """The questions of W1, about a state of their own."""
    message = decide_request(f"Note {run}. {WORKLOADS['W1']['state']}", questions("W1"))
    work = planner.plan(read_request(message, Limits(), REGISTRY))
    for _ in alone(work.start(engine.served.reader, Tally())):
        pass


def main(argv: Sequence[str]) -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=9, help="counted runs (default 9)")
    parser.add_argument("--threads", type=int, default=1, help="of the engine (default 1)")
    parser.add_argument("--json", type=Path, default=Path("adapters.json"), help="where to write the results")
    options = parser.parse_args(argv)
    engine = Engine(threads=options.threads)
    results: dict[str, Any] = {}
    names = [*(f"{size} tokens" for size in FORWARDS), "W1"]
    columns = [name + suffix for name in names for suffix in ("", ", medians")]
    print("| adapter | " + " | ".join(columns) + " | loading | memory, of the base's |")
    print("|---|" + "---|" * (len(columns) + 2), flush=True)
    for number, name in enumerate(ADAPTERS, 1):
        found = results[name] = measure(engine, number, name, options.runs)
        cells = [f"{found['ratios'][each] - 1:+.1%}" for each in columns]
        share = found["memory_mib"] / found["base_mib"]
        cells += [f"{found['loading_s']:.2f} s", f"{found['memory_mib']:.1f} MiB, {share:.1%}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
