"""TypeSafe's dialect: `POST /v1/systemone`, where a predicate is called a noul."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from dicast import jsontext
from dicast.v1 import decision_service_pb2 as service_pb
from dicast_gateway.dialect import Asked
from dicast_gateway.errors import GatewayError
from dicast_gateway.systemone.answer import to_json
from dicast_gateway.systemone.failure import locate, to_response
from dicast_gateway.systemone.request import read


class SystemOne:
    """Relabels between /v1/systemone and protobuf."""

    path = "/v1/systemone"
    state = "state"

    def read(self, body: jsontext.Object) -> Asked:
        """What a body asks. Raises GatewayError where its shape is wrong."""
        return read(body)

    def answer(self, asked: Asked, response: service_pb.DecideResponse) -> Any:
        """The JSON of an answered request. Raises GatewayError where a refusal fails the request."""
        return to_json(asked, response)

    def named(self, index: int, answers: Any) -> list[dict[str, Any]]:
        """The answer to one question under its id."""
        return [{"id": key, "answer": answer} for key, answer in answers.items()]

    def locate(self, path: jsontext.Path, request: service_pb.DecideRequest) -> jsontext.Path:
        """The JSON path of a protobuf field."""
        return locate(path, request)

    def failure(self, problem: GatewayError) -> Response:
        """A problem in this dialect's shape."""
        return to_response(problem)
