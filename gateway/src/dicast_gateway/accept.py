"""Which of the two forms of an answer a client wants: one JSON value, or events."""

from __future__ import annotations

import re
from collections.abc import Iterable

EVENT_STREAM = "text/event-stream"
_QUALITY = re.compile(r"0(\.\d{0,3})?|1(\.0{0,3})?")


def wants_events(accept: Iterable[str]) -> bool:
    """Whether the `Accept` headers name events, and like them better than JSON.

    JSON is what everybody gets who does not say otherwise: wildcards never mean events. Who names events
    next to a wildcard of the same quality wants events; who names JSON and events alike gets JSON.
    """
    quality = _qualities(",".join(accept))
    events = quality.get(EVENT_STREAM, 0)
    if (named := quality.get("application/json")) is not None:
        return events > named
    return events > 0 and events >= quality.get("application/*", quality.get("*/*", 0))


def _qualities(accept: str) -> dict[str, float]:
    """The quality of each media range: 1 where none is said, 0 where it cannot be read."""
    found: dict[str, float] = {}
    for item in accept.lower().split(","):
        media_range, *parameters = item.split(";")
        quality = 1.0
        for parameter in parameters:
            name, _, value = (part.strip() for part in parameter.partition("="))
            if name == "q":
                quality = float(value) if _QUALITY.fullmatch(value) else 0
        found[media_range.strip()] = quality
    return found
