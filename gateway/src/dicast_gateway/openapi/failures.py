"""The responses of requests that fail: made of the table of failures, and shown by examples it produces."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from starlette.responses import Response

from dicast import jsontext
from dicast.jsontext import Path
from dicast_gateway.errors import RETRY_UNAVAILABLE_S, TABLE, Fault, GatewayError, Kind

# What each kind means, and a sentence that tells of it.
_MEANINGS: dict[Kind, tuple[str, str]] = {
    Kind.INVALID: ("the request breaks the contract", "Field required"),
    Kind.LIMIT_EXCEEDED: ("a count passes a limit", "has 11 levels; at most 10 are read"),
    Kind.CONTEXT_EXCEEDED: ("a prompt is too long", "has 9000 tokens; the model reads 8192"),
    Kind.NOT_SUPPORTED: ("not served by this version", "Images are not served yet."),
    Kind.REFUSED: ("a question was refused", "questions.late: its confidence is below the least allowed"),
    Kind.MODEL_NOT_FOUND: ("no model has this name", "there is no model 'jev-9'"),
    Kind.UNAUTHENTICATED: ("the API key is missing or unknown", "this API key is not known here"),
    Kind.FORBIDDEN: ("the key is not for this", "this API key may not call this"),
    Kind.TOO_LARGE: ("too many bytes", "The request body has more than 4128768 bytes."),
    Kind.ENCODING: ("the coding of the body is not understood", "Content-Encoding 'br' is not understood"),
    Kind.OVERLOADED: ("too many requests are in flight", "64 requests are in flight; try again soon"),
    Kind.INTERNAL: ("a fault of the server, which its log has", "The server failed."),
    Kind.STARTING: ("the model is loading", "The model is loading."),
    Kind.MODEL_UNAVAILABLE: ("the model is not served", "The model is not served."),
    Kind.DRAINING: ("it is shutting down", "The gateway is shutting down."),
    Kind.UNREACHABLE: ("the engine does not answer", "The engine cannot be reached."),
    Kind.DEADLINE: ("the deadline passed", "The deadline passed before the answer was there."),
}
_WITH_FIELDS = (Kind.INVALID, Kind.LIMIT_EXCEEDED)
_RETRY_S = {429: 1.0, 503: float(RETRY_UNAVAILABLE_S)}

# Nobody is there to read of a client that has left.
_ALL = frozenset(Kind) - {Kind.GONE}
SYSTEMONE_KINDS = _ALL
DECISIONS_KINDS = _ALL - {Kind.REFUSED}
PREWARM_KINDS = _ALL - {Kind.REFUSED}
MODELS_KINDS = frozenset(
    {
        *(Kind.INVALID, Kind.NOT_SUPPORTED, Kind.UNAUTHENTICATED, Kind.FORBIDDEN, Kind.INTERNAL),
        *(Kind.STARTING, Kind.MODEL_UNAVAILABLE, Kind.DRAINING, Kind.UNREACHABLE, Kind.DEADLINE),
    }
)

FAILURES: dict[str, Any] = {
    "ValidationFailure": {
        "type": "object",
        "description": "The fields at fault, 20 at most.",
        "properties": {
            "detail": {
                "type": "array",
                "minItems": 1,
                "maxItems": 20,
                "items": {
                    "type": "object",
                    "properties": {
                        "loc": {
                            "type": "array",
                            "minItems": 1,
                            "items": {"type": ["string", "integer"]},
                            "description": "`body` or `header`, then the path of the field; "
                            "a question's has its id and its type.",
                        },
                        "msg": {"type": "string", "description": "For people."},
                        "type": {"type": "string", "description": "For programs."},
                    },
                    "required": ["loc", "msg", "type"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["detail"],
        "additionalProperties": False,
    },
    "SystemOneFailure": {
        "type": "object",
        "description": "The form of TypeSafe's API for what no field is at fault for.",
        "properties": {
            "detail": {
                "type": "object",
                "properties": {
                    "error_type": {"enum": sorted({TABLE[kind].error_type for kind in _ALL})},
                    "message": {"type": "string", "description": "For people."},
                },
                "required": ["error_type", "message"],
                "additionalProperties": False,
            }
        },
        "required": ["detail"],
        "additionalProperties": False,
    },
    "DecisionsFailure": {
        "type": "object",
        "description": "The form of OpenAI's API.",
        "properties": {
            "error": {
                "type": "object",
                "properties": {
                    "message": {"type": "string", "description": "For people; names every field at fault."},
                    "type": {"enum": sorted({TABLE[kind].type for kind in _ALL})},
                    "param": {
                        "type": ["string", "null"],
                        "description": "The path of the first field at fault.",
                    },
                    "code": {
                        "type": ["string", "null"],
                        "description": "What happened, where the type does not say it.",
                    },
                },
                "required": ["message", "type", "param", "code"],
                "additionalProperties": False,
            }
        },
        "required": ["error"],
        "additionalProperties": False,
    },
}
"""The schemas of errors, by their name."""


def failures(
    kinds: Iterable[Kind], to_response: Callable[[GatewayError], Response], field: Path, source: str = "body"
) -> dict[str, Any]:
    """What a route may answer when it fails, by status; `field` is what is at fault in the examples."""
    found: dict[str, Any] = {}
    for kind in (kind for kind in Kind if kind in kinds):
        meaning, sentence = _MEANINGS[kind]
        fault = [Fault(field, sentence, kind.lower(), source)] if kind in _WITH_FIELDS else []
        status = TABLE[kind].systemone
        reply = to_response(GatewayError(kind, sentence, fault, _RETRY_S.get(status)))
        body = jsontext.plain(jsontext.parse(bytes(reply.body)))
        response = found.setdefault(
            str(reply.status_code),
            {
                "description": "",
                "headers": _headers(reply),
                "content": {"application/json": {"schema": _schema(body), "examples": {}}},
            },
        )
        response["description"] += f"; {meaning}" if response["description"] else meaning
        response["content"]["application/json"]["examples"][kind.lower()] = {"value": body}
    for response in found.values():
        response["description"] = response["description"][0].upper() + response["description"][1:]
    return dict(sorted(found.items()))


def _headers(reply: Response) -> dict[str, Any]:
    names = {
        "retry-after": ("Retry-After", "RetryAfter"),
        "retry-after-ms": ("Retry-After-Ms", "RetryAfterMs"),
        "accept-encoding": ("Accept-Encoding", "AcceptEncoding"),
    }
    return {
        shown: {"$ref": f"#/components/headers/{component}"}
        for name, (shown, component) in names.items()
        if name in reply.headers
    }


def _schema(body: Any) -> dict[str, Any]:
    if "error" in body:
        name = "DecisionsFailure"
    else:
        name = "ValidationFailure" if isinstance(body["detail"], list) else "SystemOneFailure"
    return {"$ref": f"#/components/schemas/{name}"}
