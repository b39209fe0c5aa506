"""Small programs that stand in for the engine and the gateway as children of `dicast up`."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from client.fake_service import FakeService, model, serve

from dicast import (
    Choice,
    ChoiceAnswer,
    Client,
    Option,
    Predicate,
    PredicateAnswer,
    Question,
    Score,
    ScoreAnswer,
)
from dicast.cli.command import CommandError
from dicast.cli.pair import Pair
from dicast.cli.processes import Command
from dicast.cli.up import run
from dicast.v1 import model_service_pb2 as model_pb

TESTS = str(Path(__file__).parents[1])


def program(function: Callable[..., int | None], *arguments: object) -> tuple[str, ...]:
    """The command line that runs a function of this module in a process of its own."""
    code = (
        f"import sys; sys.path.insert(0, {TESTS!r}); from client import children; "
        f"sys.exit(children.{function.__name__}(*{arguments!r}))"
    )
    return (sys.executable, "-c", code)


def pair(
    log: Path, *, status: str = "READY", engine_code: int | None = None, stubborn: bool = False, off: int = 0
) -> Pair:
    """A pair of the programs below; both write into `log` how they end."""
    return Pair(
        engine=Command("engine", program(engine, str(log), status, engine_code), "grpc"),
        gateway=lambda address: Command(
            "gateway", program(gateway, str(log), address, stubborn, off), "http"
        ),
    )


def engine(log: str, status: str, code: int | None) -> None:
    """Serves the scripted service until SIGTERM; ends by itself where it has an exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    service = FakeService(models=[model(model_pb.Model.Status.Value(f"STATUS_{status}"))])
    service.models[0].status_message = "the option mass is 0.01" if status == "REFUSED" else ""
    server = serve(service)
    print("this line is for people")
    print(f"grpc {service.address}", flush=True)
    if code is not None:
        os._exit(code)
    note(log, f"engine in a session of its own: {os.getsid(0) == os.getpid()}")
    signal.sigwait({signal.SIGTERM})
    server.stop(0).wait()
    note(log, "engine stopped")


def gateway(log: str, address: str, stubborn: bool, off: int) -> None:
    """Relabels System One's and OpenAI's JSON, with every value `off` steps beside the engine's."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            reply = json.dumps(relabel(self.path, body, address, off)).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    print(f"http 127.0.0.1:{server.server_port}", flush=True)
    signal.sigwait({signal.SIGTERM})
    if stubborn:
        print("gateway stays", file=sys.stderr, flush=True)
        signal.sigwait({signal.SIGUSR1})
    note(log, "gateway stopped")


def relabel(path: str, body: dict[str, Any], address: str, off: int) -> dict[str, Any]:
    """What a gateway makes of a request, by way of the engine."""
    systemone = path == "/v1/systemone"
    asked = list(body["questions"].items()) if systemone else [(q["name"], q) for q in body["questions"]]
    with Client(address) as client:
        state = body["state"] if systemone else body["input"]
        decision = client.decide(state, {key: question(body) for key, body in asked})

    def moved(value: float) -> float:
        return math.nextafter(value, math.inf) if off else value

    answers: list[tuple[str, dict[str, Any]]] = []
    for each in decision:
        match each:
            case PredicateAnswer():
                kind, field = ("noul", "noul") if systemone else ("predicate", "probability")
                answers.append((each.key, {"type": kind, field: moved(each.probability)}))
            case ChoiceAnswer():
                shares: Any = {str(value): moved(share) for value, share in each.probabilities.items()}
                if not systemone:
                    shares = [{"value": value, "probability": share} for value, share in shares.items()]
                reply = {"type": "choice", "choice": each.value, "confidence": each.confidence}
                answers.append((each.key, reply | {"probabilities": shares}))
            case ScoreAnswer():
                shares = {str(level): moved(share) for level, share in enumerate(each.probabilities)}
                if not systemone:
                    shares = [{"value": int(k), "label": "", "probability": v} for k, v in shares.items()]
                reply = {"type": "score", "score": moved(each.score), "confidence": each.confidence}
                answers.append((each.key, reply | {"probabilities": shares}))
    return {
        "model": decision.model,
        "answers": dict(answers) if systemone else [reply for _, reply in answers],
    }


def question(body: dict[str, Any]) -> Question:
    match body["type"]:
        case "choice" if "criteria" in body:
            return Choice(body["instructions"], body["criteria"])
        case "choice":
            return Choice(
                body["instructions"], [Option(c["value"], c["description"]) for c in body["choices"]]
            )
        case "score":
            labels = body.get("criteria") or [level["label"] for level in body["levels"]]
            return Score(body["instructions"], labels)
        case _:
            return Predicate(body["instructions"])


def up(log: str, stubborn: bool) -> int:
    """`dicast up` with these programs as its children."""
    try:
        return run(pair(Path(log), stubborn=stubborn), patience_s=30, grace_s=60)
    except CommandError as error:
        print(error, file=sys.stderr)
        return error.code


def note(log: str, line: str) -> None:
    with open(log, "a", encoding="utf-8") as file:
        file.write(line + "\n")
