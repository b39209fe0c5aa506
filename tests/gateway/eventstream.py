"""What the tests of server-sent events share: the routes, and a reader of streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from gateway.served import StreamScript
from gateway.test_server_errors import DECISIONS as ASKED
from gateway.test_server_errors import SYSTEMONE

from dicast import jsontext
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import error_pb2

DECISIONS: dict[str, Any] = ASKED
EVENTS = {"accept": "text/event-stream"}
ROUTES: list[tuple[str, dict[str, Any]]] = [("/v1/systemone", SYSTEMONE), ("/v1/decisions", DECISIONS)]
both_routes = pytest.mark.parametrize(("route", "body"), ROUTES)

StreamEvent = pb.Answer | pb.DecideSummary | error_pb2.DecideError


@dataclass
class Told:
    """What a stream told: the events in their order, and the comments."""

    events: list[tuple[str, Any]] = field(default_factory=list)
    comments: int = 0

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.events]

    def all(self, name: str) -> list[Any]:
        return [data for found, data in self.events if found == name]

    def together(self, route: str) -> dict[str, Any]:
        """The JSON reply that the events amount to."""
        (done,) = self.all("done")
        del done["request_id"]
        told = self.all("answer")
        if route == "/v1/systemone":
            return {**done, "answers": {event["id"]: event["answer"] for event in told}}
        placed = sorted(told, key=lambda event: int(event["index"]))
        return {**done, "answers": [{name: it[name] for name in it if name != "index"} for it in placed]}


def read(text: str) -> Told:
    """A stream by the rules of its format: numbers keep their text."""
    told = Told()
    assert text.endswith("\n\n")
    for block in text.removesuffix("\n\n").split("\n\n"):
        if block.startswith(":"):
            told.comments += 1
            continue
        name, data = block.split("\n")
        value = jsontext.parse(data.removeprefix("data: "))
        told.events.append((name.removeprefix("event: "), value))
    return told


def saying(*events: StreamEvent) -> StreamScript:
    """A server that sends these, whatever it is asked."""

    async def script(request: service_pb.DecideRequest, context: Any) -> AsyncIterator[StreamEvent]:
        for event in events:
            yield event

    return script


def told(reply: httpx.Response) -> Told:
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"].startswith("text/event-stream")
    return read(reply.text)


def verbatim(value: Any) -> str:
    """JSON text by which two replies are the same to the last digit, whatever the order of their keys."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{verbatim(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(verbatim, value)) + "]"
    return repr(value)
