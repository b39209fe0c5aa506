"""Problems in the error shape of OpenAI's API."""

from __future__ import annotations

from starlette.responses import Response

from dicast.jsontext import Path, show_path
from dicast.v1 import decision_service_pb2 as service_pb
from dicast_gateway import conditions, readouts
from dicast_gateway.errors import TABLE, GatewayError, Kind
from dicast_gateway.reply import json_reply
from dicast_gateway.settings import FIELD


def to_response(problem: GatewayError) -> Response:
    """One message that names every fault, with the path of the first as `param`."""
    row = TABLE[problem.kind]
    param = (show_path(problem.faults[0].path) or None) if problem.faults else None
    if problem.kind is Kind.MODEL_NOT_FOUND:
        param = "model"
    return error_reply(
        row.decisions, problem.text, type=row.type, param=param, code=row.code, headers=problem.headers
    )


def error_reply(
    status: int,
    message: str,
    *,
    type: str = "invalid_request_error",
    param: str | None = None,
    code: str | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """An error of this dialect."""
    error = {"message": message, "type": type, "param": param, "code": code}
    return json_reply({"error": error}, status, headers)


def locate(path: Path, request: service_pb.DecideRequest) -> Path:
    """Where a protobuf field is in the JSON."""
    match path:
        case ("questions", int(index), *rest):
            inside = _in_question(rest, request, index) if index < len(request.questions) else ()
            located: Path = ("questions", index, *inside)
        case ("state", *rest):
            # The item is as near as a path can come that means the same in both.
            located = ("input", *[step for step in rest if isinstance(step, int)][:1])
        case ("options", "cache_salt", *_):
            located = ("prompt_cache_key",)
        case ("options", "readout", *rest):
            located = (FIELD, "readout", *readouts.locate(request.options.readout, rest))
        case ("options", *rest):
            located = (FIELD, *rest)
        case ("end_user", *_):
            located = ("safety_identifier",)
        case _:
            located = path
    return located


def _in_question(steps: list[str | int], request: service_pb.DecideRequest, index: int) -> Path:
    question = request.questions[index]
    match steps:
        case ["choice", "options", *rest]:
            inside: Path = ("choices", *rest)
        case ["score", "levels", *rest]:
            inside = ("levels", *rest)
        case ["readout", *rest]:
            inside = (FIELD, "readout", *readouts.locate(question.readout, rest))
        case ["ask_if", *rest]:
            inside = conditions.locate(question, rest, lambda key: request.questions[int(key)].name)
        case ["extension", "json", *rest]:
            inside = tuple(rest)
        case ["extension", "type"]:
            inside = ("type",)
        case ["instructions" | "name" as field, *_]:
            inside = (field,)
        case _:
            # A predicate has nothing inside, and keys are the gateway's own.
            inside = ()
    return inside
