"""What the gateway costs: median of a request, requests a second of 32 clients, memory over many requests.

    .venv/bin/python benchmarks/gateway.py [--requests N] [--json FILE]

Behind it a gRPC server answers at once, in a process of its own; the clients are in this one. All share the
machine's cores.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import itertools
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import grpc
from decide import child, resident_mib, side_by_side

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1.decision_service_pb2_grpc import (
    DecisionServiceServicer,
    add_DecisionServiceServicer_to_server,
)

CLIENTS = 32
BODY = json.dumps(
    {
        "model": "jev-latest",
        "state": "Parcel 7 has not moved for nine days.",
        "questions": {"late": {"type": "noul", "instructions": "Is the parcel late?"}},
    }
)


class Instant(DecisionServiceServicer):
    """Answers every question with a half, at once."""

    async def Decide(  # noqa: N802 - the contract's name
        self, request: service_pb.DecideRequest, context: Any
    ) -> service_pb.DecideResponse:
        """One answer a question."""
        answers = [
            pb.Answer(index=index, key=question.key, predicate=pb.PredicateAnswer(probability=0.5))
            for index, question in enumerate(request.questions)
        ]
        return service_pb.DecideResponse(answers=answers, summary=pb.DecideSummary(model="instant"))


async def serve() -> None:
    """The server that answers at once; until standard input ends."""
    server = grpc.aio.server()
    add_DecisionServiceServicer_to_server(Instant(), server)  # type: ignore[abstract]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"grpc 127.0.0.1:{port}", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(0)


def ask(connection: http.client.HTTPConnection) -> float:
    """One request on a connection that stays: seconds."""
    start = time.perf_counter()
    connection.request("POST", "/v1/systemone", BODY, {"content-type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    assert response.status == 200, answer
    return time.perf_counter() - start


def load(address: str, requests: int) -> float:
    """Requests a second of all clients together."""
    numbers = itertools.count()

    def work() -> None:
        connection = http.client.HTTPConnection(address)
        while next(numbers) < requests:
            ask(connection)
        connection.close()

    return requests / side_by_side(work, CLIENTS)


def main(argv: Sequence[str]) -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000, help="of the load (default 20,000)")
    parser.add_argument("--json", type=Path, default=Path("gateway.json"), help="where to write the results")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.serve:
        asyncio.run(serve())
        return
    with child(sys.executable, __file__, "--serve") as (server, _):
        gateway = (sys.executable, "-m", "dicast.cli", "gateway", "--http-port", "0", "--server", server)
        with child(*gateway, "--log-level", "warning") as (address, pid):
            connection = http.client.HTTPConnection(address)
            alone = [ask(connection) for _ in range(600)][100:]
            load(address, options.requests // 10)
            before = resident_mib(pid)
            rate = load(address, options.requests)
            after = resident_mib(pid)
    results = {
        "median_ms": 1e3 * median(alone),
        "requests_per_s": rate,
        "resident_mib": [before, after],
    }
    options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(f"a request alone, median: {results['median_ms']:.2f} ms")
    print(f"{CLIENTS} clients: {rate:.0f} requests/s")
    print(
        f"resident after {options.requests // 10:,}: {before:.0f} MiB; {options.requests:,} more: {after:.0f}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
