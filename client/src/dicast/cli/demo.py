"""`dicast demo`: asks one request over gRPC and over both JSON routes, and compares every bit."""

from __future__ import annotations

import sys

from dicast import Client, Decision, DicastError, Model
from dicast.cli import ticket
from dicast.cli.command import CommandError, Parser, add_key_flag, describe, seconds
from dicast.cli.models import engine_line
from dicast.cli.pair import PATIENCE_S, Pair, installed, start
from dicast.cli.processes import Group, Stopped
from dicast.cli.routes import Post, differences, of_decision, of_decisions, of_systemone
from dicast.cli.table import WIDTH, decision_lines, fit, style_for

_EMBEDDED = "smollm2-135m-instruct"


def main(argv: list[str]) -> int:
    """Run `dicast demo ARGV`."""
    parser = Parser("demo", "Start engine and gateway, ask one request three ways, compare, stop.")
    parser.add_argument("--server", metavar="HOST:PORT", help="use a running engine, together with --http")
    parser.add_argument("--http", metavar="HOST:PORT", help="use a running gateway, together with --server")
    parser.add_argument(
        "--patience",
        type=seconds,
        default=PATIENCE_S,
        metavar="SECONDS",
        help="how long the model may take to be ready (default: %(default)g)",
    )
    add_key_flag(parser)
    arguments = parser.parse_args(argv)
    if bool(arguments.server) != bool(arguments.http):
        raise CommandError("--server and --http go together", 2)
    if arguments.server:
        ask(arguments.server, arguments.http, arguments.api_key)
        return 0
    return run(installed(grpc_port=0, http_port=0, quiet=True), arguments.patience, arguments.api_key)


def run(pair: Pair, patience_s: float, api_key: str | None = None) -> int:
    """Start a pair, ask it, stop it."""
    with Group() as group:
        try:
            print("Starting the engine and the gateway on free ports ...", file=sys.stderr, flush=True)
            running = start(group, pair, patience_s=patience_s, api_key=api_key)
            ask(running.grpc, running.http, api_key)
        except Stopped:
            return 130
    return 0


def ask(grpc: str, http: str, api_key: str | None) -> None:
    """Ask the request three ways and print what came back. Raises CommandError where the three differ."""
    try:
        with Client(grpc, api_key=api_key) as client:
            model = client.model()
            decision = client.decide(ticket.STATE, ticket.QUESTIONS)
    except DicastError as error:
        raise CommandError(describe(error, grpc)) from error
    post = Post(http, api_key)
    systemone = post("/v1/systemone", ticket.systemone_body(model.id))
    decisions = post("/v1/decisions", ticket.decisions_body(model.id))

    print("\n".join(_heading(model)))
    print()
    print("\n".join(decision_lines(decision, style_for(sys.stdout))))
    print()
    _compare(decision, systemone, decisions)
    print()
    print("\n".join(_again()))


def _heading(model: Model) -> list[str]:
    style = style_for(sys.stdout)
    lines = [
        f"{model.id} on {engine_line(model.engine)}",
        "",
        f"State: {ticket.STATE}",
        *(f"{key}: {question.instructions}" for key, question in ticket.QUESTIONS.items()),
    ]
    return [fit(line, WIDTH, style) for line in lines]


def _compare(decision: Decision, systemone: object, decisions: object) -> None:
    over_grpc = of_decision(decision)
    keys = list(ticket.QUESTIONS)
    unlike = [
        *differences(over_grpc, of_systemone(systemone), "POST /v1/systemone"),
        *differences(over_grpc, of_decisions(decisions, keys), "POST /v1/decisions"),
    ]
    if unlike:
        raise CommandError(f"the three ways do not agree: {'; '.join(unlike)}")
    print(
        f"gRPC, POST /v1/systemone and POST /v1/decisions gave the same {len(over_grpc)} values, "
        "to the last bit."
    )
    if decision.model == _EMBEDDED:
        print("The embedded model without its adapter guesses: this shows that the path works.")
    elif decision.model.startswith(f"{_EMBEDDED}:"):
        print("The embedded model is small: it tells what a text is about, and is weak at rules and numbers.")


def _again() -> list[str]:
    return [
        "Ask again: run `make serve` in one terminal and, once it prints its addresses, in another",
        "",
        *ticket.curl_lines("127.0.0.1:8080"),
        "",
        "or, over gRPC,",
        "",
        ".venv/bin/python - <<'END'",
        *ticket.python_lines("127.0.0.1:50051"),
        "END",
    ]
