"""One decision over HTTP: body in, one call to the server, JSON or events out."""

from __future__ import annotations

import math
import re
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

from dicast_gateway.accept import wants_events
from dicast_gateway.body import may_be_large, parse_body, read_aside, read_body
from dicast_gateway.config import DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S
from dicast_gateway.dialect import Dialect
from dicast_gateway.engine import Engine
from dicast_gateway.errors import GatewayError, invalid
from dicast_gateway.events import EventReply, event_stream
from dicast_gateway.reply import json_reply

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_PASSED_ON = ("authorization", "x-dicast-tenant")
_OTHER_KEYS = ("x-api-key", "api-key")
"""Where some clients put an API key, which counts if there is no authorization."""


async def decide(http: Request, dialect: Dialect, engine: Engine, max_body_bytes: int) -> Response:
    """Answer one request of a dialect, its failures included."""
    try:
        timeout_s = read_timeout(http)
        metadata = call_metadata(http)
        if may_be_large(http):
            await engine.admit(metadata)
        body = await read_body(http, max_body_bytes)
        asked = await read_aside(body, lambda body: dialect.read(parse_body(body, dialect.state)))
        if wants_events(http.headers.getlist("accept")):
            left = partial(departure, http.receive)
            events = event_stream(dialect, asked, engine, timeout_s=timeout_s, metadata=metadata, left=left)
            return EventReply(events, dialect)
        try:
            response = await engine.decide(asked.request, timeout_s, metadata, departure(http.receive))
        except GatewayError as problem:
            raise problem.relocated(lambda path: dialect.locate(path, asked.request)) from problem
        asked.check(response)
        return json_reply(dialect.answer(asked, response))
    except GatewayError as problem:
        return dialect.failure(problem)


def read_timeout(http: Request) -> float:
    """The deadline that a client asks for. Raises GatewayError where it is no positive number."""
    text = http.headers.get("x-request-timeout")
    if text is None:
        return DEFAULT_TIMEOUT_S
    # Python's own numbers may have underscores.
    seconds = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not (0 < seconds < math.inf):
        message = "X-Request-Timeout should be a positive number of seconds"
        raise invalid(("x-request-timeout",), message, "timeout", source="header")
    return min(seconds, MAX_TIMEOUT_S)


def call_metadata(http: Request) -> list[tuple[str, str]]:
    """The metadata of the call that answers an HTTP request."""
    headers = {name: value for name in _PASSED_ON if (value := http.headers.get(name)) is not None}
    for name in _OTHER_KEYS:
        if "authorization" not in headers and (key := http.headers.get(name)) is not None:
            headers["authorization"] = f"Bearer {key}"
    # Metadata is ASCII. No key and no tenant has another character, so leaving it out changes nothing.
    passed = [(name, value) for name, value in headers.items() if value.isascii() and value.isprintable()]
    return [("x-request-id", str(http.state.request_id)), *passed]


async def departure(receive: Receive) -> None:
    """Returns when the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
