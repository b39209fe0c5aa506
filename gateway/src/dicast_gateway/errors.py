"""What can go wrong, and the one table that says which HTTP status each failure has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import ceil

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from pydantic import ValidationError

from dicast.jsontext import Path, show_path
from dicast.v1 import error_pb2

ERROR_DOMAIN = "dicast"
UNSERVED = "not_supported"
"""Type of a fault that is no mistake: the field is well-formed and not served."""
MAX_FAULTS = 20
"""More faults than this help nobody, and a body can hold a million of them."""
_MAX_MESSAGE = 1000
RETRY_UNAVAILABLE_S = 5
"""After how long to ask a server again that is starting, stopping or away."""
_RETRY_OVERLOADED_S = 1


class Kind(StrEnum):
    """Kinds of failure: the reasons of `dicast.v1.ErrorReason`, then those that only a gateway meets."""

    INVALID = "INVALID"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    CONTEXT_EXCEEDED = "CONTEXT_EXCEEDED"
    NOT_SUPPORTED = "NOT_SUPPORTED"
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
    TOO_LARGE = "TOO_LARGE"
    OVERLOADED = "OVERLOADED"
    STARTING = "STARTING"
    MODEL_UNAVAILABLE = "MODEL_UNAVAILABLE"
    DEADLINE = "DEADLINE"
    DRAINING = "DRAINING"
    INTERNAL = "INTERNAL"
    UNAUTHENTICATED = "UNAUTHENTICATED"

    FORBIDDEN = "FORBIDDEN"
    UNREACHABLE = "UNREACHABLE"
    GONE = "GONE"
    ENCODING = "ENCODING"
    REFUSED = "REFUSED"


@dataclass(frozen=True, slots=True)
class Row:
    """How one kind of failure looks in both dialects."""

    systemone: int
    """Status on /v1/systemone."""
    error_type: str
    """`detail.error_type` on /v1/systemone; statuses of 422 have a list of faults instead."""
    decisions: int
    """Status on /v1/decisions."""
    type: str
    """`error.type` on /v1/decisions."""
    code: str | None
    """`error.code` on /v1/decisions."""


_ASK = "invalid_request_error"
_SERVER = "server_error"

# Both SDKs send a 5xx again: what would fail again in the same way must not be one.
TABLE = {
    Kind.INVALID: Row(422, "invalid_request", 400, _ASK, None),
    Kind.LIMIT_EXCEEDED: Row(422, "limit_exceeded", 400, _ASK, "limit_exceeded"),
    Kind.CONTEXT_EXCEEDED: Row(400, "max_tokens_exceeded", 400, _ASK, "context_length_exceeded"),
    Kind.NOT_SUPPORTED: Row(400, "not_supported", 400, _ASK, "not_supported"),
    Kind.REFUSED: Row(400, "refused", 400, _ASK, "refused"),
    Kind.MODEL_NOT_FOUND: Row(400, "api_usage_error", 404, _ASK, "model_not_found"),
    Kind.UNAUTHENTICATED: Row(401, "authentication_error", 401, _ASK, "invalid_api_key"),
    Kind.FORBIDDEN: Row(403, "authentication_error", 403, _ASK, "permission_denied"),
    Kind.TOO_LARGE: Row(413, "request_too_large", 413, _ASK, "request_too_large"),
    Kind.ENCODING: Row(415, "unsupported_encoding", 415, _ASK, "unsupported_encoding"),
    Kind.OVERLOADED: Row(429, "rate_limit_exceeded", 429, "rate_limit_exceeded", "rate_limit_exceeded"),
    Kind.GONE: Row(499, "client_closed_request", 499, _ASK, "client_closed_request"),
    Kind.INTERNAL: Row(500, "internal_error", 500, _SERVER, "internal_error"),
    Kind.STARTING: Row(503, "starting", 503, _SERVER, "starting"),
    Kind.MODEL_UNAVAILABLE: Row(503, "unavailable", 503, _SERVER, "unavailable"),
    Kind.DRAINING: Row(503, "draining", 503, _SERVER, "draining"),
    Kind.UNREACHABLE: Row(503, "unreachable", 503, _SERVER, "unreachable"),
    Kind.DEADLINE: Row(504, "deadline_exceeded", 504, _SERVER, "deadline_exceeded"),
}

# Statuses that come without our details: from gRPC itself or from another server.
_BY_CODE = {
    grpc.StatusCode.INVALID_ARGUMENT: Kind.INVALID,
    grpc.StatusCode.NOT_FOUND: Kind.MODEL_NOT_FOUND,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Kind.TOO_LARGE,
    grpc.StatusCode.UNAUTHENTICATED: Kind.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED: Kind.FORBIDDEN,
    grpc.StatusCode.UNIMPLEMENTED: Kind.NOT_SUPPORTED,
    grpc.StatusCode.UNAVAILABLE: Kind.UNREACHABLE,
    grpc.StatusCode.CANCELLED: Kind.UNREACHABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED: Kind.DEADLINE,
}

# Sentences for failures whose own text would tell of addresses and internals.
_FIXED_MESSAGES = {
    Kind.INTERNAL: "The server failed. Its log has this request under the id in the header x-request-id.",
    Kind.UNREACHABLE: "The engine cannot be reached.",
    Kind.NOT_SUPPORTED: "The engine does not know this call.",
    Kind.TOO_LARGE: "The request or its answer has more bytes than fit into one message.",
    Kind.DEADLINE: "The deadline passed before the answer was there.",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One field at fault."""

    path: Path
    message: str
    type: str
    source: str = "body"
    """Where the field is: "body" or "header"."""


class GatewayError(Exception):
    """A request failed as a whole.

    Attributes:
        kind: what went wrong; TABLE has its statuses.
        message: for people.
        faults: the fields at fault, where there are any.
        retry_s: after how many seconds a retry helps, or None.
    """

    def __init__(
        self, kind: Kind, message: str, faults: Iterable[Fault] = (), retry_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = _shorten(message)
        self.faults = tuple(replace(fault, message=_shorten(fault.message)) for fault in faults)[:MAX_FAULTS]
        self.retry_s = retry_s

    def relocated(self, locate: Callable[[Path], Path]) -> GatewayError:
        """The same problem with the paths of its faults translated."""
        faults = [replace(fault, path=locate(fault.path)) for fault in self.faults]
        return GatewayError(self.kind, self.message, faults, self.retry_s)

    @property
    def text(self) -> str:
        """All of it in one line: the faults have the dialect's paths, the server's message has protobuf's."""
        if not self.faults or self.kind is Kind.MODEL_NOT_FOUND:
            return self.message
        return "; ".join(
            f"{show_path(fault.path)}: {fault.message}" if fault.path else fault.message
            for fault in self.faults
        )

    @property
    def headers(self) -> dict[str, str]:
        """When to try again, for the clients that read either header; or which codings are understood."""
        if self.kind is Kind.ENCODING:
            return {"accept-encoding": "identity, gzip, zstd"}
        if self.retry_s is None:
            return {}
        return {
            "retry-after": str(max(1, ceil(self.retry_s))),
            "retry-after-ms": str(max(1, ceil(self.retry_s * 1000))),
        }


def invalid(path: Path, message: str, type: str, source: str = "body") -> GatewayError:
    """A problem with one field."""
    return GatewayError(Kind.INVALID, message, [Fault(path, message, type, source)])


def internal() -> GatewayError:
    """A fault of ours, without a word about the inside."""
    return GatewayError(Kind.INTERNAL, _FIXED_MESSAGES[Kind.INTERNAL])


def stopping() -> GatewayError:
    """The gateway ends before the answer was there; another replica, or this one after a while, has it."""
    return GatewayError(Kind.DRAINING, "The gateway is shutting down.", retry_s=RETRY_UNAVAILABLE_S)


def gone() -> GatewayError:
    """The client closed its connection: nobody reads this answer."""
    return GatewayError(Kind.GONE, "The client closed the connection.")


def from_schema(error: ValidationError, skip: frozenset[str] = frozenset()) -> GatewayError:
    """What pydantic found, without the steps in `skip`, which name union members and no fields."""
    faults = [
        Fault(tuple(step for step in found["loc"] if step not in skip), found["msg"], found["type"])
        for found in error.errors(include_url=False, include_context=False, include_input=False)[:MAX_FAULTS]
    ]
    # The gravest names the kind, as the server has it.
    kind = Kind.NOT_SUPPORTED if all(fault.type == UNSERVED for fault in faults) else Kind.INVALID
    return GatewayError(kind, faults[0].message, faults)


def from_rpc(error: grpc.aio.AioRpcError) -> GatewayError:
    """What a failed call to the server means."""
    return _from_details(error.code(), error.details() or "", _details(error))


def from_stream(error: error_pb2.DecideError) -> GatewayError:
    """What the failure of one request on a stream means."""
    codes = {code.value[0]: code for code in grpc.StatusCode}
    reasons = {number: name.removeprefix("ERROR_REASON_") for name, number in error_pb2.ErrorReason.items()}
    found = _Details(faults=[Fault(parse_path(it.field), it.description, "") for it in error.violations])
    # A reason of a later version has no name here.
    if (reason := reasons.get(error.reason, "")) in Kind.__members__:
        found.kind = Kind[reason]
    if error.HasField("retry_delay"):
        found.retry_s = error.retry_delay.ToTimedelta().total_seconds()
    return _from_details(codes.get(error.code, grpc.StatusCode.UNKNOWN), error.message, found)


def _from_details(code: grpc.StatusCode, message: str, found: _Details) -> GatewayError:
    kind = found.kind
    if kind is None:
        kind = _BY_CODE.get(code, Kind.INTERNAL)
        message = _FIXED_MESSAGES.get(kind, message)
    elif kind is Kind.INTERNAL:
        message = _FIXED_MESSAGES[kind]
    message = message or kind.replace("_", " ").capitalize()

    faults = found.faults
    if kind in (Kind.INVALID, Kind.LIMIT_EXCEEDED):
        faults = [replace(fault, type=kind.lower()) for fault in faults or [Fault((), message, "")]]
    retry_s: float | None = None
    if TABLE[kind].systemone == 503:
        retry_s = found.retry_s or RETRY_UNAVAILABLE_S
    elif kind is Kind.OVERLOADED:
        retry_s = found.retry_s or _RETRY_OVERLOADED_S
    return GatewayError(kind, message, faults, retry_s)


def parse_path(path: str) -> Path:
    """The steps of a path like `questions[2].choice.options[0].value`."""
    steps = re.findall(r"([^.\[\]]+)|\[(\d+)\]", path)
    return tuple(int(index) if index else name for name, index in steps)


@dataclass(slots=True)
class _Details:
    kind: Kind | None = None
    faults: list[Fault] = field(default_factory=list)
    retry_s: float | None = None


def _details(error: grpc.aio.AioRpcError) -> _Details:
    """What the server said about its failure in google.rpc messages; nothing where another one failed."""
    found = _Details()
    try:
        status = rpc_status.from_call(error)
    except (ValueError, DecodeError):
        return found
    info, bad, retry = (
        error_details_pb2.ErrorInfo(),
        error_details_pb2.BadRequest(),
        error_details_pb2.RetryInfo(),
    )
    for detail in status.details if status is not None else ():
        if detail.Unpack(info):
            if info.domain == ERROR_DOMAIN and info.reason in Kind.__members__:
                found.kind = Kind[info.reason]
        elif detail.Unpack(bad):
            found.faults = [Fault(parse_path(it.field), it.description, "") for it in bad.field_violations]
        elif detail.Unpack(retry):
            found.retry_s = retry.retry_delay.ToTimedelta().total_seconds()
    return found


def _shorten(message: str) -> str:
    return message if len(message) <= _MAX_MESSAGE else message[: _MAX_MESSAGE - 1] + "…"
