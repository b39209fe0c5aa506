"""The client for programs on asyncio: `Client`, word for word, with `await`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

import grpc

from dicast import _decode, _decode_models, _encode, _errors
from dicast import _questions as q
from dicast._answers import Decision, Event, Prewarmed
from dicast._connection import DEFAULT_TARGET, DEFAULT_TIMEOUT_S, FROM_CLIENT, Connection, Timeout
from dicast._models import Model
from dicast._options import Options
from dicast.v1 import decision_service_pb2_grpc as service_grpc
from dicast.v1 import model_service_pb2 as model_pb
from dicast.v1 import model_service_pb2_grpc as model_grpc


class AsyncClient:
    """A connection to a dicast server on the running event loop. Arguments and errors are `Client`'s.

    Example:
        async with AsyncClient("127.0.0.1:50051") as client:
            decision = await client.decide("The door is open.", {"open": Predicate("Is it open?")})
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        api_key: str | None = None,
        tenant: str | None = None,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        retries: bool = True,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        self._connection = Connection(
            target=target,
            api_key=api_key,
            tenant=tenant,
            timeout_s=timeout_s,
            retries=retries,
            credentials=credentials,
        )
        options = self._connection.channel_options()
        if credentials is None:
            self._channel = grpc.aio.insecure_channel(target, options)
        else:
            self._channel = grpc.aio.secure_channel(target, credentials, options)
        self._decisions = service_grpc.DecisionServiceStub(self._channel)
        self._models = model_grpc.ModelServiceStub(self._channel)

    def __repr__(self) -> str:
        return self._connection.describe("AsyncClient")

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; calls in flight are cancelled."""
        await self._channel.close()

    async def decide(
        self,
        state: q.State,
        questions: q.Questions,
        *,
        model: str = "",
        options: Options | None = None,
        end_user: str = "",
        ask: Sequence[str] = (),
        timeout_s: Timeout = FROM_CLIENT,
        request_id: str = "",
    ) -> Decision:
        """Answer questions about a state; see `Client.decide`. Cancelling the task cancels the call."""
        request = _encode.decide_request(
            state, questions, model=model, options=options, end_user=end_user, ask=ask
        )
        return _decode.decision(await self._call(self._decisions.Decide, request, timeout_s, request_id))

    def stream(
        self,
        requests: AsyncIterable[q.Request] | Iterable[q.Request],
        *,
        timeout_s: Timeout = FROM_CLIENT,
        request_id: str = "",
    ) -> AsyncStream:
        """Answer any number of requests over one call, each answer as soon as it is read.

        `requests` is read only as fast as the server takes them. `timeout_s` is for the whole stream.

        Example:
            async with client.stream(requests) as events:
                async for event in events:
                    print(event.id, event)
        """
        return AsyncStream(
            lambda outgoing: self._decisions.StreamDecide(
                outgoing,
                timeout=self._connection.deadline_s(timeout_s),
                metadata=self._connection.metadata(request_id),
            ),
            requests,
            request_id,
        )

    async def prewarm(
        self,
        state: q.State,
        *,
        model: str = "",
        time_to_live_s: float | None = None,
        cache_salt: str = "",
        timeout_s: Timeout = FROM_CLIENT,
        request_id: str = "",
    ) -> Prewarmed:
        """Have a state read and kept, so that questions about it start at once; see `Client.prewarm`."""
        request = _encode.prewarm_request(
            state, model=model, time_to_live_s=time_to_live_s, cache_salt=cache_salt
        )
        return _decode.prewarmed(await self._call(self._decisions.Prewarm, request, timeout_s, request_id))

    async def models(self, *, timeout_s: Timeout = FROM_CLIENT, request_id: str = "") -> tuple[Model, ...]:
        """The served models, the default one first."""
        request = model_pb.ListModelsRequest()
        response = await self._call(self._models.ListModels, request, timeout_s, request_id)
        return tuple(_decode_models.model(each) for each in response.models)

    async def model(self, name: str = "", *, timeout_s: Timeout = FROM_CLIENT, request_id: str = "") -> Model:
        """One model by id or alias; the default one if empty. Raises NotFound where there is none."""
        request = model_pb.GetModelRequest(name=name)
        response = await self._call(self._models.GetModel, request, timeout_s, request_id)
        return _decode_models.model(response.model)

    async def _call(
        self, method: Callable[..., Any], request: Any, timeout_s: Timeout, request_id: str
    ) -> Any:
        deadline_s = self._connection.deadline_s(timeout_s)
        metadata = self._connection.metadata(request_id)
        try:
            return await method(request, timeout=deadline_s, metadata=metadata)
        except grpc.RpcError as error:
            raise _errors.from_rpc(error, request_id) from error


class AsyncStream:
    """The events of a stream, as they come; made by `AsyncClient.stream`.

    Leaving the `async with` block, or `close`, cancels what is still in flight. An error of the iterable of
    requests ends the sending side: what was sent is answered, then the error is raised here.
    """

    def __init__(
        self,
        start: Callable[[AsyncIterator[Any]], Any],
        requests: AsyncIterable[q.Request] | Iterable[q.Request],
        request_id: str,
    ) -> None:
        self._request_id = request_id
        self._closed = False
        self._faults: list[Exception] = []
        self._call = start(_outgoing(requests, self._faults))

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if self._closed:
            raise StopAsyncIteration
        try:
            message = await self._call.read()
        except asyncio.CancelledError:
            if self._closed:  # by another task, while this one waited
                raise StopAsyncIteration from None
            raise
        except grpc.RpcError as error:
            raise _errors.from_rpc(error, self._request_id) from error
        if message is grpc.aio.EOF:
            if self._faults:
                raise self._faults.pop()
            raise StopAsyncIteration
        return _decode.event(message)

    async def close(self) -> None:
        """End the stream; requests in flight are cancelled."""
        self._closed = True
        self._call.cancel()


async def _outgoing(
    requests: AsyncIterable[q.Request] | Iterable[q.Request], faults: list[Exception]
) -> AsyncIterator[Any]:
    try:
        if isinstance(requests, AsyncIterable):
            async for request in requests:
                yield _encode.stream_request(request)
        else:
            for request in requests:
                yield _encode.stream_request(request)
    except Exception as error:
        faults.append(error)
