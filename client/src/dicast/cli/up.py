"""`dicast up`: runs the engine and the gateway together until a signal ends both."""

from __future__ import annotations

import argparse
import os

from dicast.cli.command import CommandError, Parser, seconds
from dicast.cli.pair import PATIENCE_S, Pair, installed, start
from dicast.cli.processes import GRACE_S, Group, Stopped

_EPILOG = """\
Prints `grpc HOST:PORT` and `http HOST:PORT` once the model is ready; logs go to stderr. Ctrl-C or SIGTERM
lets the gateway finish, then the engine. Flags after -- go to `dicast serve`: dicast up -- --help
"""


def main(argv: list[str]) -> int:
    """Run `dicast up ARGV`."""
    own, serve = argv, list[str]()
    if "--" in argv:
        place = argv.index("--")
        own, serve = argv[:place], argv[place + 1 :]
    parser = Parser("up", "Run the engine and the gateway together.", epilog=_EPILOG)
    parser.add_argument(
        "--grpc-port", type=port, help="0 takes a free one (default: DICAST_GRPC_PORT, or 50051)"
    )
    parser.add_argument(
        "--http-port", type=port, help="0 takes a free one (default: DICAST_HTTP_PORT, or 8080)"
    )
    parser.add_argument("--model", default="", help="model to serve (default: the embedded one)")
    parser.add_argument(
        "--patience",
        type=seconds,
        default=PATIENCE_S,
        metavar="SECONDS",
        help="how long the model may take to be ready (default: %(default)g)",
    )
    arguments = parser.parse_args(own)
    if arguments.grpc_port and arguments.grpc_port == arguments.http_port:
        raise CommandError("--grpc-port and --http-port are the same port", 2)
    pair = installed(
        grpc_port=arguments.grpc_port,
        http_port=arguments.http_port,
        model=arguments.model,
        serve=serve,
    )
    return run(pair, patience_s=arguments.patience, api_key=os.environ.get("DICAST_API_KEY") or None)


def run(pair: Pair, *, patience_s: float, api_key: str | None = None, grace_s: float = GRACE_S) -> int:
    """Run a pair until a signal comes. Raises ChildFailed where a child ends by itself or is not ready."""
    with Group(grace_s=grace_s) as group:
        try:
            running = start(group, pair, patience_s=patience_s, api_key=api_key)
            print(f"grpc {running.grpc}\nhttp {running.http}", flush=True)
            group.wait()
        except Stopped:
            pass
    return 0


def port(text: str) -> int:
    """A port number, for argparse."""
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port from 0 to 65535")
    return int(text)
