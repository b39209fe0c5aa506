"""A scripted server: the real contract on a real port, without a model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import decision_service_pb2_grpc as service_grpc
from dicast.v1 import model_service_pb2 as model_pb
from dicast.v1 import model_service_pb2_grpc as model_grpc

MODEL_ID = "fake-1"


@dataclass(frozen=True)
class Call:
    """One call as the server saw it; `seconds_left` is None without a deadline."""

    request: Any
    metadata: dict[str, str]
    seconds_left: float | None


def answer(index: int, question: pb.Question) -> pb.Answer:
    """What the fake says: predicates 0.7, the first option or level before the others."""
    reply = pb.Answer(index=index, key=question.key)
    if question.HasField("name"):
        reply.name = question.name
    match question.WhichOneof("type"):
        case "predicate":
            reply.predicate.probability = 0.7
        case "choice":
            shares = spread(len(question.choice.options))
            reply.choice.value.CopyFrom(question.choice.options[0].value)
            reply.choice.confidence = (shares[0] - 1 / len(shares)) / (1 - 1 / len(shares))
            for option, share in zip(question.choice.options, shares, strict=True):
                reply.choice.probabilities.add(value=option.value, probability=share)
        case "score":
            shares = spread(len(question.score.levels))
            reply.score.score = sum(level * share for level, share in enumerate(shares))
            reply.score.confidence = 1 / 3
            for number, (level, share) in enumerate(zip(question.score.levels, shares, strict=True)):
                entry = reply.score.probabilities.add(level=number, probability=share)
                if level.HasField("label"):
                    entry.label = level.label
    return reply


def spread(count: int) -> list[float]:
    weights = [1 / (2 + place) for place in range(count)]
    return [weight / sum(weights) for weight in weights]


def decide(request: service_pb.DecideRequest, _: grpc.ServicerContext) -> service_pb.DecideResponse:
    response = service_pb.DecideResponse(
        answers=[answer(index, question) for index, question in enumerate(request.questions)],
        summary=summary("request-1"),
    )
    return response


def summary(request_id: str) -> pb.DecideSummary:
    message = pb.DecideSummary(
        model=MODEL_ID,
        usage=pb.Usage(input_tokens=90, cached_tokens=60, computed_tokens=30),
        request_id=request_id,
    )
    message.elapsed.FromMilliseconds(125)
    return message


def stream(
    requests: Iterator[service_pb.StreamDecideRequest], context: grpc.ServicerContext
) -> Iterator[service_pb.StreamDecideResponse]:
    for request in requests:
        for index, question in enumerate(request.request.questions):
            yield service_pb.StreamDecideResponse(id=request.id, answer=answer(index, question))
        yield service_pb.StreamDecideResponse(id=request.id, summary=summary(f"request-{request.id}"))


def model(status: model_pb.Model.Status.ValueType = model_pb.Model.STATUS_READY) -> model_pb.Model:
    message = model_pb.Model(
        id=MODEL_ID,
        aliases=["jev-latest"],
        family="llama",
        status=status,
        question_types=["predicate", "choice", "score"],
        readouts=["letters"],
        profile=model_pb.Profile(name="stock", prompt_version="1", forward_tokens=128),
        limits=model_pb.Limits(context_tokens=8192, questions=400, options=255, levels=10, orders=32),
        calibration=model_pb.Calibration(temperature=1.0, source="default"),
        engine=model_pb.Engine(device="cpu", blas="OpenBLAS 0.3.30", blas_threads=2, mlx_version="0.32.4"),
        parameters=134_500_000,
        quantization="Q4_1",
        self_check=model_pb.SelfCheck(option_mass=0.93, right=3, asked=6, predicate_direction=True),
    )
    message.loaded_at.FromJsonString("2026-11-30T10:00:00Z")
    return message


def fail(context: grpc.ServicerContext, code: grpc.StatusCode, message: str, *details: Message) -> None:
    """End a call with a rich status."""
    status = status_pb2.Status(code=code.value[0], message=message)
    for detail in details:
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    context.abort_with_status(rpc_status.to_status(status))


def info(reason: str, **metadata: str) -> error_details_pb2.ErrorInfo:
    return error_details_pb2.ErrorInfo(reason=reason, domain="dicast", metadata=metadata)


@dataclass
class FakeService(service_grpc.DecisionServiceServicer, model_grpc.ModelServiceServicer):
    """Answers by its scripts, which a test may replace, and remembers the calls."""

    decide: Callable[[service_pb.DecideRequest, grpc.ServicerContext], Any] = decide
    stream: Callable[[Iterator[service_pb.StreamDecideRequest], grpc.ServicerContext], Any] = stream
    models: list[model_pb.Model] = field(default_factory=lambda: [model()])
    calls: list[Call] = field(default_factory=list)
    address: str = ""
    cancelled: threading.Event = field(default_factory=threading.Event)

    def Decide(  # noqa: N802
        self, request: service_pb.DecideRequest, context: grpc.ServicerContext
    ) -> service_pb.DecideResponse:
        self._note(request, context)
        response: service_pb.DecideResponse = self.decide(request, context)
        return response

    def StreamDecide(  # noqa: N802
        self, request_iterator: Any, context: grpc.ServicerContext
    ) -> Iterator[service_pb.StreamDecideResponse]:
        self._note(None, context)
        finished = threading.Event()
        context.add_callback(lambda: None if finished.is_set() else self.cancelled.set())
        yield from self.stream(request_iterator, context)
        finished.set()

    def Prewarm(  # noqa: N802
        self, request: service_pb.PrewarmRequest, context: grpc.ServicerContext
    ) -> service_pb.PrewarmResponse:
        self._note(request, context)
        return service_pb.PrewarmResponse(
            model=MODEL_ID, prefix_tokens=70, cached_tokens=64, kept=True, request_id="request-2"
        )

    def ListModels(  # noqa: N802
        self, request: model_pb.ListModelsRequest, context: grpc.ServicerContext
    ) -> model_pb.ListModelsResponse:
        self._note(request, context)
        return model_pb.ListModelsResponse(models=self.models)

    def GetModel(  # noqa: N802
        self, request: model_pb.GetModelRequest, context: grpc.ServicerContext
    ) -> model_pb.GetModelResponse:
        self._note(request, context)
        for each in self.models:
            if request.name in ("", each.id, *each.aliases):
                return model_pb.GetModelResponse(model=each)
        message = f"there is no model {request.name!r}"
        fail(context, grpc.StatusCode.NOT_FOUND, message, info("MODEL_NOT_FOUND", models=MODEL_ID))
        raise AssertionError

    def _note(self, request: Any, context: grpc.ServicerContext) -> None:
        metadata = {key: str(value) for key, value in context.invocation_metadata()}
        left = context.time_remaining()
        # Without a deadline gRPC reports centuries.
        self.calls.append(Call(request, metadata, left if left < 1e6 else None))


def serve(service: FakeService) -> grpc.Server:
    """Start a server for a fake on a free port; the fake learns its address."""
    server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
    service_grpc.add_DecisionServiceServicer_to_server(service, server)
    model_grpc.add_ModelServiceServicer_to_server(service, server)
    service.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    return server
