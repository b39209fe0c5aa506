"""`POST /v1/prewarm`: a state is read and kept before anyone asks about it. Errors are System One's."""

from __future__ import annotations

from typing import Any

from google.protobuf.duration_pb2 import Duration
from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from dicast import jsontext
from dicast.v1 import decision_service_pb2 as service_pb
from dicast_gateway.body import may_be_large, parse_body, read_aside, read_body
from dicast_gateway.content import Content, Shape, to_state
from dicast_gateway.decide import call_metadata, departure, read_timeout
from dicast_gateway.engine import Engine
from dicast_gateway.errors import GatewayError, from_schema
from dicast_gateway.reply import json_reply
from dicast_gateway.systemone.failure import to_response

PATH = "/v1/prewarm"


class Body(Shape):
    """A state, and for how long to hold it."""

    model: str = ""
    state: Content
    time_to_live_s: float | None = Field(None, ge=1e-6, le=24 * 3600)
    cache_salt: str = ""


async def prewarm(http: Request, engine: Engine, max_body_bytes: int) -> Response:
    """Answer one request, its failures included."""
    try:
        timeout_s = read_timeout(http)
        metadata = call_metadata(http)
        if may_be_large(http):
            await engine.admit(metadata)
        body = await read_body(http, max_body_bytes)
        request = await read_aside(body, lambda body: read(parse_body(body, "state")))
        kept = await engine.prewarm(request, timeout_s, metadata, departure(http.receive))
    except GatewayError as problem:
        return to_response(problem)
    return json_reply(answer(kept))


def read(tree: jsontext.Object) -> service_pb.PrewarmRequest:
    """The protobuf of a parsed body. Raises GatewayError where its shape is wrong."""
    try:
        body = Body.model_validate(tree)
    except ValidationError as error:
        raise from_schema(error) from None
    request = service_pb.PrewarmRequest(
        model=body.model, state=to_state(body.state), cache_salt=body.cache_salt
    )
    if body.time_to_live_s is not None:
        hold = Duration()
        hold.FromNanoseconds(int(body.time_to_live_s * 1e9))
        request.time_to_live.CopyFrom(hold)
    return request


def answer(kept: service_pb.PrewarmResponse) -> Any:
    """The JSON of what was kept."""
    return {
        "model": kept.model,
        "ok": kept.kept,
        "prompt_tokens": kept.prefix_tokens,
        "cached_tokens": kept.cached_tokens,
        "reason": kept.reason,
    }
