"""The client for programs with threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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


class Client:
    """A connection to a dicast server; threads may share it.

    Arguments:
        target: address of the server, as gRPC takes it: `host:port`, `dns:///name:port`, `unix:path`.
        api_key: sent as a bearer token, where the server has keys.
        tenant: keeps prefixes apart from those of other tenants, where the server has no keys.
        timeout_s: seconds that a call may take, waiting included, unless the call says otherwise. None:
            no deadline on this side; the server still has its own.
        retries: whether a call that found the server unavailable is tried again, three times in all.
        credentials: TLS credentials, such as `grpc.ssl_channel_credentials()`. None: no TLS.

    Every call raises a subclass of `ServerError` when it fails. `request_id` names the call in the
    server's log.

    Example:
        with Client("127.0.0.1:50051") as client:
            decision = client.decide(
                "I was charged twice.",
                {"route": Choice("Which team?", {"billing": "charges, refunds", "shipping": None})},
            )
            print(decision.choice("route").value)
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
            self._channel = grpc.insecure_channel(target, options)
        else:
            self._channel = grpc.secure_channel(target, credentials, options)
        self._decisions = service_grpc.DecisionServiceStub(self._channel)
        self._models = model_grpc.ModelServiceStub(self._channel)

    def __repr__(self) -> str:
        return self._connection.describe("Client")

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; calls in flight are cancelled."""
        self._channel.close()

    def decide(
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
        """Answer questions about a state.

        Arguments:
            state: a `str` is text, `Json` is JSON as written, a dict, list or number is written as JSON.
            questions: by key, or in a sequence, where the keys are "0", "1" and so on.
            model: id or alias. Empty: the default model.
            options: settings of the request.
            end_user: an opaque id of the person behind the request, for the server's log.
            ask: the keys of the questions to ask; the others get no answer. Empty: all.
            timeout_s: seconds that the call may take. None: no deadline on this side.
            request_id: names the call in the server's log. Empty: the server makes one.

        Raises:
            ServerError: the call failed as a whole. A question that fails alone is a `Refused` answer.
            TypeError, ValueError: something that cannot be sent, with its path.
        """
        request = _encode.decide_request(
            state, questions, model=model, options=options, end_user=end_user, ask=ask
        )
        return _decode.decision(self._call(self._decisions.Decide, request, timeout_s, request_id))

    def stream(
        self,
        requests: Iterable[q.Request],
        *,
        timeout_s: Timeout = FROM_CLIENT,
        request_id: str = "",
    ) -> Stream:
        """Answer any number of requests over one call, each answer as soon as it is read.

        `requests` is read in a thread of gRPC's, only as fast as the server takes them. `timeout_s` is for
        the whole stream.

        Example:
            with client.stream(Request(str(n), text, questions) for n, text in enumerate(texts)) as events:
                for event in events:
                    print(event.id, event)
        """
        return Stream(
            lambda outgoing: self._decisions.StreamDecide(
                outgoing,
                timeout=self._connection.deadline_s(timeout_s),
                metadata=self._connection.metadata(request_id),
            ),
            requests,
            request_id,
        )

    def prewarm(
        self,
        state: q.State,
        *,
        model: str = "",
        time_to_live_s: float | None = None,
        cache_salt: str = "",
        timeout_s: Timeout = FROM_CLIENT,
        request_id: str = "",
    ) -> Prewarmed:
        """Have a state read and kept, so that questions about it start at once.

        Arguments:
            state: as for `decide`.
            model: id or alias. Empty: the default model.
            time_to_live_s: seconds for which the state is held against eviction. None: not held.
            cache_salt: as in the options of the requests that are to use it.
            timeout_s: seconds that the call may take. None: no deadline on this side.
            request_id: names the call in the server's log.
        """
        request = _encode.prewarm_request(
            state, model=model, time_to_live_s=time_to_live_s, cache_salt=cache_salt
        )
        return _decode.prewarmed(self._call(self._decisions.Prewarm, request, timeout_s, request_id))

    def models(self, *, timeout_s: Timeout = FROM_CLIENT, request_id: str = "") -> tuple[Model, ...]:
        """The served models, the default one first."""
        request = model_pb.ListModelsRequest()
        response = self._call(self._models.ListModels, request, timeout_s, request_id)
        return tuple(_decode_models.model(each) for each in response.models)

    def model(self, name: str = "", *, timeout_s: Timeout = FROM_CLIENT, request_id: str = "") -> Model:
        """One model by id or alias; the default one if empty. Raises NotFound where there is none."""
        request = model_pb.GetModelRequest(name=name)
        return _decode_models.model(self._call(self._models.GetModel, request, timeout_s, request_id).model)

    def _call(self, method: Callable[..., Any], request: Any, timeout_s: Timeout, request_id: str) -> Any:
        deadline_s = self._connection.deadline_s(timeout_s)
        metadata = self._connection.metadata(request_id)
        try:
            return method(request, timeout=deadline_s, metadata=metadata)
        except grpc.RpcError as error:
            raise _errors.from_rpc(error, request_id) from error


class Stream:
    """The events of a stream, as they come; made by `Client.stream`.

    Leaving the `with` block, or `close`, cancels what is still in flight. An error of the iterable of
    requests ends the sending side: what was sent is answered, then the error is raised here.
    """

    def __init__(
        self,
        start: Callable[[Iterator[Any]], Any],
        requests: Iterable[q.Request],
        request_id: str,
    ) -> None:
        self._request_id = request_id
        self._closed = False
        self._faults: list[Exception] = []
        self._call = start(_outgoing(requests, self._faults))

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self._closed:
            raise StopIteration
        try:
            return _decode.event(next(self._call))
        except StopIteration:
            if self._faults:
                raise self._faults.pop() from None
            raise
        except grpc.RpcError as error:
            if self._closed:  # by another thread, while this one waited
                raise StopIteration from None
            raise _errors.from_rpc(error, self._request_id) from error

    def close(self) -> None:
        """End the stream; requests in flight are cancelled."""
        self._closed = True
        self._call.cancel()


def _outgoing(requests: Iterable[q.Request], faults: list[Exception]) -> Iterator[Any]:
    # Not a method: gRPC's thread would hold the stream, and a forgotten stream could never be collected.
    try:
        for request in requests:
            yield _encode.stream_request(request)
    except Exception as error:
        faults.append(error)
