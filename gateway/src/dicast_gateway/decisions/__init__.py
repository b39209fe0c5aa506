"""OpenAI's dialect: `POST /v1/decisions`."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from dicast import jsontext
from dicast.v1 import decision_service_pb2 as service_pb
from dicast_gateway.decisions.answer import to_json
from dicast_gateway.decisions.failure import locate, to_response
from dicast_gateway.decisions.request import read
from dicast_gateway.dialect import Asked
from dicast_gateway.errors import GatewayError


class Decisions:
    """Relabels between /v1/decisions and protobuf."""

    path = "/v1/decisions"
    state = "input"

    def read(self, body: jsontext.Object) -> Asked:
        """What a body asks. Raises GatewayError where its shape is wrong."""
        return Asked(read(body))

    def answer(self, asked: Asked, response: service_pb.DecideResponse) -> Any:
        """The JSON of an answered request."""
        return to_json(asked.request, response)

    def named(self, index: int, answers: Any) -> list[dict[str, Any]]:
        """The answer to one question with its place, since names may repeat or be absent."""
        return [{"index": index, **answer} for answer in answers]

    def locate(self, path: jsontext.Path, request: service_pb.DecideRequest) -> jsontext.Path:
        """The JSON path of a protobuf field."""
        return locate(path, request)

    def failure(self, problem: GatewayError) -> Response:
        """A problem in this dialect's shape."""
        return to_response(problem)
