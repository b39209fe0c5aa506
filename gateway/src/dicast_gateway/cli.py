"""`dicast gateway`: serves the JSON gateway until it is told to stop."""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import sys
import threading
from collections.abc import Iterator

import uvicorn
from pydantic import ValidationError
from pydantic_settings import SettingsError

from dicast_gateway.app import create_app
from dicast_gateway.config import Settings

# Longer than any client keeps an idle connection, so that it is the client who closes it.
_KEEP_ALIVE_S = 75
_DRAIN_S = 25
_BACKLOG = 2048
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main(argv: list[str]) -> int:
    """Run `dicast gateway` with its arguments; the result is the exit code."""
    try:
        settings = Settings(_cli_parse_args=argv)  # type: ignore[call-arg]
    except SystemExit:
        # --help was printed.
        return 0
    except SettingsError as error:
        return _stop(2, str(error).removeprefix("error parsing CLI: "))
    except ValidationError as error:
        return _stop(2, _sentence(error))
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    try:
        listener = _listen(settings.http_host, settings.http_port)
    except OSError as error:
        reason = error.strerror or error
        return _stop(1, f"cannot listen on {settings.http_host} port {settings.http_port}: {reason}")
    with listener:
        _Server(uvicorn_config(settings), listener).run(sockets=[listener])
    return 0


def uvicorn_config(settings: Settings) -> uvicorn.Config:
    """How the application is served."""
    return uvicorn.Config(
        create_app(settings),
        http="h11",
        loop="asyncio",
        ws="none",
        lifespan="on",
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_DRAIN_S,
        # The gateway logs each request itself, under its id and on stderr.
        log_config=None,
        access_log=False,
        server_header=False,
    )


class _Server(uvicorn.Server):
    """Says where it listens, and ends a drained run as a success."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket) -> None:
        super().__init__(config)
        host, port = listener.getsockname()[:2]
        self._address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(f"http {self._address}", flush=True)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn raises the signal again once it has drained, so that its process would die of it.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _listen(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # A port that is taken is found out now and not after the start.
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _sentence(error: ValidationError) -> str:
    found = error.errors()[0]
    field = str(found["loc"][0])
    message = found["msg"][0].lower() + found["msg"][1:]
    return f"--{field.replace('_', '-')} (DICAST_{field.upper()}): {message}, not {found['input']!r}"


def _stop(code: int, sentence: str) -> int:
    print(f"dicast gateway: {sentence}", file=sys.stderr)
    return code
