"""Failures of a call as exceptions: one class for what a caller can do about it, attributes for the rest."""

from __future__ import annotations

import pickle

import grpc
import pytest
from client.fake_service import FakeService, fail, info
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2

import dicast
from dicast import Client, Predicate, Violation, _errors
from dicast.v1 import error_pb2

CODES = [
    (grpc.StatusCode.INVALID_ARGUMENT, "CONTEXT_EXCEEDED", dicast.InvalidRequest),
    (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_LARGE", dicast.InvalidRequest),
    (grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND", dicast.NotFound),
    (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", dicast.Unauthenticated),
    (grpc.StatusCode.PERMISSION_DENIED, "", dicast.Unauthenticated),
    (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", dicast.Overloaded),
    (grpc.StatusCode.UNAVAILABLE, "STARTING", dicast.Unavailable),
    (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE", dicast.DeadlineExceeded),
    (grpc.StatusCode.CANCELLED, "", dicast.Cancelled),
    (grpc.StatusCode.INTERNAL, "INTERNAL", dicast.Internal),
    (grpc.StatusCode.UNKNOWN, "", dicast.Internal),
    (grpc.StatusCode.UNIMPLEMENTED, "", dicast.ServerError),
]


@pytest.mark.parametrize(("code", "reason", "kind"), CODES)
def test_each_status_has_its_class(
    fake: FakeService, code: grpc.StatusCode, reason: str, kind: type[dicast.ServerError]
) -> None:
    def script(_: object, context: grpc.ServicerContext) -> None:
        context.set_trailing_metadata((("x-request-id", "r-7"),))
        violations = [error_details_pb2.BadRequest.FieldViolation(field="state", description="is missing")]
        fail(
            context,
            code,
            "it went wrong",
            info(reason, tokens="9000", limit="8192"),
            error_details_pb2.BadRequest(field_violations=violations),
            error_details_pb2.RetryInfo(retry_delay=Duration(seconds=1, nanos=500_000_000)),
        )

    fake.decide = script
    with Client(fake.address, retries=False) as client, pytest.raises(dicast.ServerError) as caught:
        client.decide("x", [Predicate("?")])
    error = caught.value
    assert type(error) is kind
    assert str(error) == error.message == "it went wrong"
    assert (error.code, error.reason) == (code, reason)
    assert error.violations == (Violation("state", "is missing"),)
    assert error.retry_delay_s == 1.5
    assert error.metadata == {"tokens": "9000", "limit": "8192"}
    assert isinstance(error.__cause__, grpc.RpcError)


@pytest.mark.parametrize(("code", "reason", "kind"), CODES)
def test_an_error_on_a_stream_is_the_same(
    code: grpc.StatusCode, reason: str, kind: type[dicast.ServerError]
) -> None:
    message = error_pb2.DecideError(
        code=code.value[0],
        reason=error_pb2.ErrorReason.Value(f"ERROR_REASON_{reason or 'UNSPECIFIED'}"),
        message="it went wrong",
        violations=[error_pb2.FieldViolation(field="state", description="is missing")],
        retry_delay=Duration(seconds=2),
        request_id="r-7",
        facts=[error_pb2.ErrorFact(name="tokens", value="9000")],
    )
    error = _errors.from_message(message)
    assert type(error) is kind
    assert (error.code, error.reason, error.message) == (code, reason, "it went wrong")
    assert error.violations == (Violation("state", "is missing"),)
    assert (error.retry_delay_s, error.request_id, error.metadata) == (2.0, "r-7", {"tokens": "9000"})


def test_a_newer_reason_or_code_is_no_trouble() -> None:
    error = _errors.from_message(error_pb2.DecideError(code=99, reason=77))  # type: ignore[arg-type]
    assert (type(error), error.reason, error.message) == (dicast.Internal, "", "UNKNOWN")
    assert error.retry_delay_s is None


def test_a_status_without_details_or_with_broken_ones_is_still_an_error(fake: FakeService) -> None:
    def plain(_: object, context: grpc.ServicerContext) -> None:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no")

    def broken(_: object, context: grpc.ServicerContext) -> None:
        context.set_trailing_metadata((("grpc-status-details-bin", b"\xff\xff"),))
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no")

    for script in (plain, broken):
        fake.decide = script
        with Client(fake.address) as client, pytest.raises(dicast.InvalidRequest) as caught:
            client.decide("x", [Predicate("?")], request_id="mine")
        assert (caught.value.reason, caught.value.violations) == ("", ())
        assert caught.value.request_id == "mine"


def test_a_message_that_grpc_itself_finds_too_large_is_an_invalid_request(fake: FakeService) -> None:
    with Client(fake.address) as client:
        with pytest.raises(dicast.InvalidRequest) as caught:
            client.decide("x" * 5_000_000, [Predicate("?")])
        assert caught.value.reason == "TOO_LARGE"
        # More than gRPC's own 4 MiB reaches the wire: here the fake's gRPC is the one to refuse it.
        with pytest.raises(dicast.InvalidRequest):
            client.decide("x" * (4 * 1024 * 1024 + 1000), [Predicate("?")])


def test_the_servers_request_id_is_found(fake: FakeService) -> None:
    def script(_: object, context: grpc.ServicerContext) -> None:
        context.set_trailing_metadata((("x-request-id", "r-7"),))
        context.abort(grpc.StatusCode.INTERNAL, "no")

    fake.decide = script
    with Client(fake.address) as client, pytest.raises(dicast.Internal) as caught:
        client.decide("x", [Predicate("?")], request_id="mine")
    assert caught.value.request_id == "r-7"


def test_the_deadline_ends_a_call(fake: FakeService) -> None:
    def script(_: object, context: grpc.ServicerContext) -> None:
        fake.cancelled.wait(10)

    fake.decide = script
    with Client(fake.address) as client, pytest.raises(dicast.DeadlineExceeded):
        client.decide("x", [Predicate("?")], timeout_s=0.1)
    fake.cancelled.set()


def test_errors_survive_pickling() -> None:
    error = dicast.Overloaded(
        "full", code=grpc.StatusCode.RESOURCE_EXHAUSTED, reason="OVERLOADED", retry_delay_s=0.5
    )
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is dicast.Overloaded
    assert (copy.message, copy.code, copy.retry_delay_s) == (error.message, error.code, 0.5)
