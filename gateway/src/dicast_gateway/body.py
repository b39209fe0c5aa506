"""The body of a request: read and decompressed under a limit, parsed without losing anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.requests import Request

from dicast import jsontext
from dicast_gateway.codings import decompress, read_codings, too_large
from dicast_gateway.errors import GatewayError, Kind, gone, invalid

T = TypeVar("T")

_LARGE_BODY = 64 * 1024
# More threads would share one interpreter, and what is being read takes fifty times its size.
_READERS = ThreadPoolExecutor(2, "read-body")


def may_be_large(http: Request) -> bool:
    """Whether reading a body may cost more than a call to the server, as far as its headers tell."""
    coded = "content-encoding" in http.headers
    return coded or int(http.headers.get("content-length", _LARGE_BODY)) >= _LARGE_BODY


async def read_body(http: Request, limit: int) -> bytes:
    """The bytes of a body, decompressed. Nothing is read of one that says it is too large.

    Both the bytes on the wire and what they expand to are held to `limit`.

    Raises:
        GatewayError: too large, in an unknown coding, damaged, or the client is gone.
    """
    codings = read_codings(http.headers.getlist("content-encoding"))
    if http.headers.get("content-type", "").lower().startswith("multipart/"):
        raise GatewayError(
            Kind.NOT_SUPPORTED, "Images are not served yet: send the request as application/json."
        )
    if int(http.headers.get("content-length", 0)) > limit:
        raise too_large(limit)

    body = bytearray()
    while True:
        message = await http.receive()
        if message["type"] == "http.disconnect":
            raise gone()
        body += message.get("body", b"")
        if len(body) > limit:
            raise too_large(limit)
        if not message.get("more_body", False):
            return await decompress(bytes(body), codings, limit)


async def read_aside(body: bytes, read: Callable[[bytes], T]) -> T:
    """What `read` makes of a body: of a large one on another thread.

    Megabytes take seconds to parse, in which the loop would not even say that the gateway is alive.
    """
    if len(body) < _LARGE_BODY:
        return read(body)
    return await asyncio.get_running_loop().run_in_executor(_READERS, read, body)


def parse_body(body: bytes, state: str) -> jsontext.Object:
    """The JSON object in a body. Keys may repeat inside of the field `state` alone.

    Raises:
        GatewayError: the body is not JSON, not an object, or a key occurs twice.
    """
    try:
        tree = jsontext.parse(body)
    except jsontext.JsonError as error:
        message = error.problem if error.path else f"the body: {error.problem}"
        raise invalid(error.path, message, "json_invalid") from None
    if not isinstance(tree, jsontext.Object):
        raise invalid((), "the body must be a JSON object", "dict_type")

    # The copy shares all but the state with the tree.
    outside = jsontext.Object((key, None if key == state else value) for key, value in tree.pairs)
    if (path := jsontext.find_repeated_key(outside)) is not None:
        raise repeated_key(path)
    return tree


def repeated_key(path: jsontext.Path) -> GatewayError:
    """The problem of a key that occurs twice where only one of the two can count."""
    return invalid(path, f"the key {str(path[-1])[:80]!r} occurs twice", "repeated_key")
