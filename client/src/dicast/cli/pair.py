"""An engine and a gateway in front of it, as children: how they are started and when they are ready."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dicast import Client, DeadlineExceeded, Model, Unauthenticated, Unavailable
from dicast.cli.command import CommandError
from dicast.cli.processes import ChildFailed, Command, Group

PATIENCE_S = 600.0
"""Seconds until a model is ready: the first start fetches it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The command lines of an engine and of a gateway.

    Attributes:
        engine: prints `grpc HOST:PORT`.
        gateway: makes, from the engine's address, a command that prints `http HOST:PORT`.
    """

    engine: Command
    gateway: Callable[[str], Command]


@dataclass(frozen=True, slots=True)
class Running:
    """A pair that answers.

    Attributes:
        grpc: address of the engine.
        http: address of the gateway.
        model: the default one, which is ready.
    """

    grpc: str
    http: str
    model: Model


def installed(
    *,
    grpc_port: int | None,
    http_port: int | None,
    model: str = "",
    serve: Sequence[str] = (),
    quiet: bool = False,
) -> Pair:
    """The pair of the installed packages; port 0 takes a free one, None their own setting.

    `serve` is passed on to `dicast serve`; a quiet pair logs warnings and errors alone.
    """
    dicast = (sys.executable, "-m", "dicast.cli")
    named = ("--model", model) if model else ()
    log = ("--log-level", "warning") if quiet else ()
    return Pair(
        engine=Command(
            "engine",
            (*dicast, "serve", *_flag("--grpc-port", grpc_port), *named, *log, *serve),
            announces="grpc",
        ),
        gateway=lambda address: Command(
            "gateway",
            (*dicast, "gateway", *_flag("--http-port", http_port), "--server", address, *log),
            announces="http",
        ),
    )


def _flag(name: str, value: int | None) -> tuple[str, ...]:
    return () if value is None else (name, str(value))


def start(group: Group, pair: Pair, *, patience_s: float, api_key: str | None = None) -> Running:
    """Start both in a group and wait until the model is ready.

    Raises:
        ChildFailed: a child ended, the model was refused, or `patience_s` seconds were not enough.
        Stopped: a signal asked for the end.
    """
    deadline = time.monotonic() + patience_s
    group.start(pair.engine)
    grpc = group.address("engine", patience_s)
    # The gateway is up while the model still loads; it says so to its callers.
    group.start(pair.gateway(grpc))
    http = group.address("gateway", max(deadline - time.monotonic(), 1.0))
    return Running(grpc, http, _wait_ready(group, grpc, deadline, patience_s, api_key))


def _wait_ready(group: Group, grpc: str, deadline: float, patience_s: float, api_key: str | None) -> Model:
    with Client(grpc, api_key=api_key, timeout_s=5.0) as client:
        while time.monotonic() < deadline:
            try:
                model = client.model()
            except (Unavailable, DeadlineExceeded):
                group.pause(0.2)
                continue
            except Unauthenticated as error:
                raise CommandError("the engine has keys: set DICAST_API_KEY to one of them") from error
            if model.status == "ready":
                return model
            if model.status == "refused":
                raise ChildFailed(f"the model {model.id} is not served: {model.status_message}")
            group.pause(0.1)
    raise ChildFailed(f"the model was not ready within {patience_s:g} s")
