"""JSON responses whose numbers are written as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from dicast import jsontext


def json_reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON response: floats unrounded, parsed numbers as written, every zero, false and empty printed."""
    return Response(
        jsontext.encode(value).encode(),
        status_code=status,
        headers=dict(headers or {}),
        media_type="application/json",
    )
