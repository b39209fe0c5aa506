"""Every error that a call can raise, with what the server said as attributes.

DicastError
├── Unanswered               a typed read of a question that was skipped or refused
└── ServerError              the call failed
    ├── InvalidRequest       the request breaks the contract or passes a limit: see `violations`
    ├── NotFound             no model of that name
    ├── Unauthenticated      the key is missing, unknown or not allowed to do this
    ├── Overloaded           the queue is full: wait `retry_delay_s`
    ├── Unavailable          no server there, or it is starting, draining or refusing its model
    ├── DeadlineExceeded     waiting and work took longer than `timeout_s`
    ├── Cancelled            the call was cancelled
    └── Internal             a fault of the server; its log has it under `request_id`

Values that cannot be sent at all raise ValueError or TypeError with their path, before anything is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from dicast.v1 import error_pb2

if TYPE_CHECKING:
    from dicast._answers import Refused, Skipped


class DicastError(Exception):
    """The root of all errors of this package."""


class Unanswered(DicastError):
    """A question was skipped or refused, so it has no answer of its type.

    Attributes:
        answer: the `Skipped` or `Refused` that stands in its place.
    """

    def __init__(self, message: str, answer: Skipped | Refused) -> None:
        super().__init__(message, answer)
        self.answer = answer

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class Violation:
    """One field at fault.

    Attributes:
        field: its path in the request, for example `questions[2].choice.options[0].value`.
        description: what is wrong and what to do.
    """

    field: str
    description: str


class ServerError(DicastError):
    """A call failed.

    Attributes:
        code: the gRPC status code.
        reason: of the server, for programs, as in `ErrorReason`, for example "CONTEXT_EXCEEDED". Empty:
            the failure came from the network or from another program.
        message: for people.
        violations: the fields at fault.
        retry_delay_s: seconds to wait before trying again. None: the server named none.
        request_id: as in the server's log. Empty: unknown.
        metadata: details by name, for example "tokens" and "limit".
    """

    def __init__(
        self,
        message: str,
        *,
        code: grpc.StatusCode = grpc.StatusCode.UNKNOWN,
        reason: str = "",
        violations: Iterable[Violation] = (),
        retry_delay_s: float | None = None,
        request_id: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.violations = tuple(violations)
        self.retry_delay_s = retry_delay_s
        self.request_id = request_id
        self.metadata = dict(metadata or {})

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions pickle by their positional arguments; these have keywords.
        return (_restore, (type(self), self.message, self.__dict__))


class InvalidRequest(ServerError):
    """The request breaks the contract, passes a limit or is too large; the same request fails again."""


class NotFound(ServerError):
    """There is no model of that name; `metadata["models"]` lists those there are."""


class Unauthenticated(ServerError):
    """The key is missing, unknown or not allowed to do this."""


class Overloaded(ServerError):
    """The server's queue is full; try again after `retry_delay_s`."""


class Unavailable(ServerError):
    """No server answers there, or it is starting, draining or refusing its model."""


class DeadlineExceeded(ServerError):
    """Waiting and work took longer than the deadline."""


class Cancelled(ServerError):
    """The call was cancelled, by this side or by the server."""


class Internal(ServerError):
    """A fault of the server, whose log has it under `request_id`."""


_CLASSES: dict[grpc.StatusCode, type[ServerError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
    grpc.StatusCode.FAILED_PRECONDITION: InvalidRequest,
    grpc.StatusCode.OUT_OF_RANGE: InvalidRequest,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: Unauthenticated,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Overloaded,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.CANCELLED: Cancelled,
    grpc.StatusCode.INTERNAL: Internal,
    grpc.StatusCode.UNKNOWN: Internal,
    grpc.StatusCode.DATA_LOSS: Internal,
}
_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}
_DOMAIN = "dicast"
_TOO_LARGE = "TOO_LARGE"


def from_rpc(error: grpc.RpcError, request_id: str = "") -> ServerError:
    """The error of a failed call. `request_id` is the one that was sent, for want of the server's."""
    call = cast(Any, error)
    code: grpc.StatusCode = call.code()
    message: str = call.details() or code.name
    info = error_details_pb2.ErrorInfo()
    violations: list[Violation] = []
    retry_delay_s: float | None = None
    for detail in _status(call).details:
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            found = error_details_pb2.ErrorInfo()
            if detail.Unpack(found) and found.domain == _DOMAIN:
                info = found
        elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            bad = error_details_pb2.BadRequest()
            detail.Unpack(bad)
            violations += [Violation(each.field, each.description) for each in bad.field_violations]
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry = error_details_pb2.RetryInfo()
            detail.Unpack(retry)
            retry_delay_s = _seconds(retry.retry_delay)
    reason = info.reason
    if not reason and code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in message:
        # gRPC itself, on either side, refuses a message past the limit; it sends no details.
        reason = _TOO_LARGE
    if not reason and code is grpc.StatusCode.DEADLINE_EXCEEDED:
        # gRPC's own words on this side speak of a removed stream.
        message = "no answer came before the deadline; allow more time or ask fewer questions"
    return _class(code, reason)(
        message,
        code=code,
        reason=reason,
        violations=violations,
        retry_delay_s=retry_delay_s,
        request_id=_request_id(call) or request_id,
        metadata=info.metadata,
    )


def from_message(error: error_pb2.DecideError) -> ServerError:
    """The error of one request on a stream."""
    code = _CODES.get(error.code, grpc.StatusCode.UNKNOWN)
    reason = ""
    if error.reason in error_pb2.ErrorReason.values() and error.reason:
        reason = error_pb2.ErrorReason.Name(error.reason).removeprefix("ERROR_REASON_")
    return _class(code, reason)(
        error.message or code.name,
        code=code,
        reason=reason,
        violations=[Violation(each.field, each.description) for each in error.violations],
        retry_delay_s=_seconds(error.retry_delay) if error.HasField("retry_delay") else None,
        request_id=error.request_id,
        metadata={fact.name: fact.value for fact in error.facts},
    )


def _class(code: grpc.StatusCode, reason: str) -> type[ServerError]:
    if reason == _TOO_LARGE:
        return InvalidRequest
    return _CLASSES.get(code, ServerError)


def _status(call: Any) -> status_pb2.Status:
    try:
        return rpc_status.from_call(call) or status_pb2.Status()
    except (ValueError, DecodeError):  # details of a proxy in between, or cut ones
        return status_pb2.Status()


def _request_id(call: Any) -> str:
    for metadata in (call.trailing_metadata(), call.initial_metadata()):
        for key, value in metadata or ():
            if key == "x-request-id":
                return str(value)
    return ""


def _seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos / 1e9


def _restore(kind: type[ServerError], message: str, attributes: dict[str, Any]) -> ServerError:
    error = kind(message)
    error.__dict__.update(attributes)
    return error
