"""Why a request fails as a whole, and the status that its caller gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import grpc
from google.protobuf import any_pb2, duration_pb2, message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from dicast.v1 import error_pb2

DOMAIN = "dicast"
MAX_VIOLATIONS = 20
MAX_BYTES = 4096
"""gRPC drops the status of an error whose trailers pass 8 KiB; base64 and headers take their share."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A field at fault: its path in the request, and what is wrong and what to do."""

    field: str
    description: str


@dataclass(eq=False)
class Failure(Exception):
    """A request that fails as a whole.

    `reason` is a name of dicast.v1.ErrorReason without its prefix; `retry_after_s` is set where a retry
    helps; `metadata` are facts for programs.
    """

    code: grpc.StatusCode
    reason: str
    message: str
    violations: tuple[Violation, ...] = ()
    retry_after_s: float | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    @property
    def for_the_log(self) -> str:
        """Reason and fields, without words that may quote the request."""
        fields = ", ".join(violation.field for violation in self.violations[:3])
        return f"{self.code.name} {self.reason}" + (f" ({fields})" if fields else "")


def _text(text: str) -> str:
    """What a message can carry: a plugin's words may hold a lone surrogate."""
    return text.encode("utf-8", "backslashreplace").decode()


def invalid(violations: Iterable[Violation], reason: str = "INVALID", **metadata: str) -> Failure:
    """INVALID_ARGUMENT: the fields at fault, the first of them in the message."""
    listed = tuple(Violation(_text(each.field), _text(each.description)) for each in violations)
    first = f"{listed[0].field}: {listed[0].description}"
    more = f" (and {len(listed) - 1} more)" if len(listed) > 1 else ""
    return Failure(grpc.StatusCode.INVALID_ARGUMENT, reason, first + more, listed, metadata=metadata)


def model_not_found(name: str, known: Iterable[str]) -> Failure:
    """NOT_FOUND: no model of that name."""
    names = ", ".join(known)
    return Failure(
        grpc.StatusCode.NOT_FOUND,
        "MODEL_NOT_FOUND",
        f"there is no model {_shortened(name)!r}; this server has {names}",
        (Violation("model", f"is not one of {names}"),),
        metadata={"model": _shortened(name), "models": names},
    )


def unauthenticated(why: str) -> Failure:
    """UNAUTHENTICATED: no key, or one that is not known."""
    return Failure(grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", why)


def overloaded(queued: int) -> Failure:
    """RESOURCE_EXHAUSTED: as many requests wait as may."""
    return Failure(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "OVERLOADED",
        f"{queued} requests are in flight, which is as many as this server takes; try again in a second",
        retry_after_s=1.0,
    )


def starting(doing: str = "") -> Failure:
    """UNAVAILABLE: the model loads, checks itself or is calibrated, which takes longer and is said."""
    return Failure(
        grpc.StatusCode.UNAVAILABLE,
        "STARTING",
        f"the model is starting{f' ({doing})' if doing else ''}; try again in a few seconds",
        retry_after_s=5.0,
    )


def model_unavailable(why: str) -> Failure:
    """UNAVAILABLE: the model is not served, or its engine has ended."""
    return Failure(grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE", why)


def draining() -> Failure:
    """UNAVAILABLE: the server shuts down."""
    return Failure(
        grpc.StatusCode.UNAVAILABLE,
        "DRAINING",
        "this server is shutting down; ask another",
        retry_after_s=1.0,
    )


def deadline(seconds: float) -> Failure:
    """DEADLINE_EXCEEDED: waiting and work took longer than the caller allowed."""
    return Failure(
        grpc.StatusCode.DEADLINE_EXCEEDED,
        "DEADLINE",
        f"the request was not answered within {seconds:.3g} s; allow more time or ask fewer questions",
    )


def internal(request_id: str) -> Failure:
    """INTERNAL: a fault of the server, whose inside stays in the log."""
    return Failure(
        grpc.StatusCode.INTERNAL,
        "INTERNAL",
        f"the server failed on this request; its log has the fault under request id {request_id}",
    )


def to_status(failure: Failure, request_id: str) -> status_pb2.Status:
    """The google.rpc.Status of a failure, with its details."""
    metadata = {**failure.metadata, "request_id": request_id}
    details: list[message.Message] = [
        error_details_pb2.ErrorInfo(reason=failure.reason, domain=DOMAIN, metadata=metadata)
    ]
    if violations := _listed(failure.violations):
        details.append(
            error_details_pb2.BadRequest(
                field_violations=[
                    error_details_pb2.BadRequest.FieldViolation(field=v.field, description=v.description)
                    for v in violations
                ]
            )
        )
    if failure.retry_after_s is not None:
        details.append(error_details_pb2.RetryInfo(retry_delay=_duration(failure.retry_after_s)))
    packed = []
    for detail in details:
        packed.append(any_pb2.Any())
        packed[-1].Pack(detail)
    return status_pb2.Status(code=number(failure), message=_shortened(failure.message, 512), details=packed)


def to_error(failure: Failure, request_id: str) -> error_pb2.DecideError:
    """The same for one request of a stream."""
    return error_pb2.DecideError(
        code=number(failure),
        reason=error_pb2.ErrorReason.Value(f"ERROR_REASON_{failure.reason}"),
        message=_shortened(failure.message, 512),
        violations=[
            error_pb2.FieldViolation(field=v.field, description=v.description)
            for v in _listed(failure.violations)
        ],
        retry_delay=None if failure.retry_after_s is None else _duration(failure.retry_after_s),
        request_id=request_id,
        facts=[error_pb2.ErrorFact(name=name, value=value) for name, value in failure.metadata.items()],
    )


def number(failure: Failure) -> int:
    """The number of a failure's gRPC status code."""
    return int(code_pb2.Code.Value(failure.code.name))


def _listed(violations: tuple[Violation, ...]) -> list[Violation]:
    listed: list[Violation] = []
    room = MAX_BYTES - 1024
    for violation in violations[:MAX_VIOLATIONS]:
        short = Violation(_shortened(violation.field), _shortened(violation.description, 400))
        room -= len(short.field.encode()) + len(short.description.encode()) + 8
        if room < 0:
            break
        listed.append(short)
    return listed


def _shortened(text: str, limit: int = 200) -> str:
    """At most `limit` bytes of a text: trailers are counted in bytes, and an emoji has four."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[: limit - 3].decode(errors="ignore") + "…"


def _duration(seconds: float) -> duration_pb2.Duration:
    duration = duration_pb2.Duration()
    duration.FromNanoseconds(round(seconds * 1e9))
    return duration
