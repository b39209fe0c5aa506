"""The request id: one name for a request in its response, in the log and on its way to the server."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dicast_gateway.errors import GatewayError, internal, stopping

_LOG = logging.getLogger("dicast_gateway")
_MAX_LENGTH = 128


class RequestId:
    """ASGI middleware: names each request, logs its end, and turns what broke it off into a response.

    Pure ASGI: Starlette's own base class would hide that a client has left.
    """

    def __init__(self, app: ASGIApp, failed: Callable[[str, GatewayError], Response]) -> None:
        self._app = app
        self._failed = failed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        started = time.perf_counter()
        status = 0

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = request_id
                # TypeSafe's SDK raises where this one is missing; the others ignore it.
                headers["x-typesafe-request-id"] = request_id
            await send(message)

        try:
            await self._app(scope, receive, send_named)
        except asyncio.CancelledError:
            # The time to drain is over. The task ends here, so nobody misses the cancellation.
            if status:
                raise
            await self._failed(scope["path"], stopping())(scope, receive, send_named)
        except Exception:
            _LOG.exception("request %s failed", request_id)
            if status:
                raise
            await self._failed(scope["path"], internal())(scope, receive, send_named)
        _LOG.info(
            "%s %s %d %.1f ms %s",
            scope["method"],
            # The path as it was sent: decoded, it could hold a line break.
            scope.get("raw_path", b"").decode("ascii", "replace"),
            status,
            (time.perf_counter() - started) * 1000,
            request_id,
        )


def _request_id(scope: Scope) -> str:
    """The client's id where it can stand in a header, in metadata and in a log line; else a new one."""
    offered = Headers(scope=scope).get("x-request-id", "")
    if 0 < len(offered) <= _MAX_LENGTH and all("!" <= character <= "~" for character in offered):
        return offered
    return uuid.uuid4().hex
