"""What the gateway asks of a JSON dialect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from starlette.responses import Response

from dicast.jsontext import Object, Path
from dicast.v1 import decision_service_pb2 as service_pb
from dicast_gateway.errors import GatewayError


@dataclass(frozen=True, slots=True)
class Asked:
    """A body as it was read.

    `partial`: a refused question is left out of the reply, where the dialect has no form for one.
    """

    request: service_pb.DecideRequest
    partial: bool = False

    def check(self, response: service_pb.DecideResponse) -> None:
        """Raise ValueError where the answers are not those to the questions that were asked."""
        ask = frozenset(self.request.ask)
        wanted = [
            index for index, question in enumerate(self.request.questions) if not ask or question.key in ask
        ]
        if (found := [answer.index for answer in response.answers]) != wanted:
            raise ValueError(f"the server answered the questions {found}, and was asked {wanted}")


class Dialect(Protocol):
    """What a JSON dialect has to say. It relabels; it decides nothing."""

    path: str
    """Path of its route."""
    state: str
    """Field of its body that holds the state."""

    def read(self, body: Object) -> Asked:
        """What a body asks. Raises GatewayError where its shape is wrong."""

    def answer(self, asked: Asked, response: service_pb.DecideResponse) -> Any:
        """The JSON of an answered request. Raises GatewayError where the dialect has no form for it."""

    def named(self, index: int, answers: Any) -> list[dict[str, Any]]:
        """The `answers` of a reply to the question at `index` alone, each with what it is told by."""

    def locate(self, path: Path, request: service_pb.DecideRequest) -> Path:
        """The JSON path of a protobuf field."""

    def failure(self, problem: GatewayError) -> Response:
        """A problem in this dialect's shape."""
