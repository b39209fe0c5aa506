"""Bytes that are no message of the contract: refused as a caller's mistake, where gRPC itself would fail."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from dicast_server.service import failures
from dicast_server.service.calls import Context, call
from dicast_server.service.failures import Violation

_OURS = "/dicast.v1."


class _Malformed:
    """Stands for a message that could not be parsed."""


class MalformedMessages(grpc.aio.ServerInterceptor):
    """Answers INVALID_ARGUMENT to what is not protobuf, or not UTF-8 where it must be."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Put a forgiving parser before a method of ours, and a refusal behind it."""
        handler = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith(_OURS):
            return handler
        parse = _forgiving(handler.request_deserializer)
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(
                _refusing_one(handler.unary_unary, handler_call_details.method),
                request_deserializer=parse,
                response_serializer=handler.response_serializer,
            )
        return grpc.stream_stream_rpc_method_handler(
            _refusing_many(handler.stream_stream),
            request_deserializer=parse,
            response_serializer=handler.response_serializer,
        )


def _forgiving(parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def parse_or_stand_in(data: bytes) -> Any:
        try:
            return parse(data)
        except DecodeError:
            return _Malformed()

    return parse_or_stand_in


def _refusing_one(serve: Callable[[Any, Context], Awaitable[Any]], method: str) -> Any:
    async def serve_or_refuse(request: Any, context: Context) -> Any:
        if isinstance(request, _Malformed):
            async with call(context, method.rsplit("/", 1)[-1], None):
                raise _refusal()
        return await serve(request, context)

    return serve_or_refuse


def _refusing_many(serve: Callable[[AsyncIterator[Any], Context], AsyncGenerator[Any]]) -> Any:
    async def well_formed(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for request in requests:
            if isinstance(request, _Malformed):
                raise _refusal()
            yield request

    async def serve_or_refuse(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
        async with aclosing(serve(well_formed(requests), context)) as responses:
            async for response in responses:
                yield response

    return serve_or_refuse


def _refusal() -> failures.Failure:
    return failures.invalid(
        [Violation("message", "is no message of dicast.v1: not protobuf, or a string that is not UTF-8")]
    )
