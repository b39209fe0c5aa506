"""Problems in the two error shapes of /v1/systemone."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from dicast.jsontext import Path
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast_gateway import conditions, readouts
from dicast_gateway.errors import TABLE, Fault, GatewayError
from dicast_gateway.reply import json_reply
from dicast_gateway.settings import FIELD

_TAGS = {"predicate": "noul", "choice": "choice", "score": "score"}


def to_response(problem: GatewayError) -> Response:
    """422 lists the faults; every other status has one error type and one message."""
    row = TABLE[problem.kind]
    detail: Any = {"error_type": row.error_type, "message": problem.text}
    if row.systemone == 422:
        faults = problem.faults or (Fault((), problem.message, row.error_type),)
        detail = [
            {"loc": [fault.source, *fault.path], "msg": fault.message, "type": fault.type} for fault in faults
        ]
    return json_reply({"detail": detail}, row.systemone, problem.headers)


def locate(path: Path, request: service_pb.DecideRequest) -> Path:
    """Where a protobuf field is in the JSON: a question's path has its id and then its type."""
    match path:
        case ("questions", int(index), *rest) if index < len(request.questions):
            question = request.questions[index]
            return ("questions", question.key, *_in_question(question, rest))
        case ("state", *_):
            return ("state",)
        case ("options", "readout", *rest):
            return (FIELD, "readout", *readouts.locate(request.options.readout, rest))
        case ("options", *rest):
            return (FIELD, *rest)
        case _:
            return path


def _in_question(question: pb.Question, steps: list[str | int]) -> Path:
    type_ = question.WhichOneof("type") or "predicate"
    tag = question.extension.type if type_ == "extension" else _TAGS[type_]
    match steps:
        case ["key", *_]:
            return ()
        case ["instructions", *_]:
            inside: Path = ("instructions",)
        case ["readout", *rest]:
            inside = (FIELD, "readout", *readouts.locate(question.readout, rest))
        case ["ask_if", *rest]:
            inside = conditions.locate(question, rest, lambda key: key)
        case ["extension", "json", *rest]:
            inside = tuple(rest)
        case ["extension", "type"]:
            inside = ("type",)
        case ["predicate", "when_true" | "when_false" as outcome, *_]:
            inside = ("criteria", outcome.removeprefix("when_"))
        case ["choice", "options", int(index), *_] if index < len(question.choice.options):
            inside = ("criteria", question.choice.options[index].value.string_value)
        case ["score", "levels", int(index), *_]:
            inside = ("criteria", index)
        case ["choice" | "score", *_]:
            inside = ("criteria",)
        case _:
            inside = ()
    return (tag, *inside)
