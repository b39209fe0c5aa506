"""ModelService, and which name means which model."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from google.protobuf import timestamp_pb2

from dicast.v1 import model_service_pb2 as pb
from dicast.v1.model_service_pb2_grpc import ModelServiceServicer
from dicast_server.service import failures
from dicast_server.service.calibration_message import calibration_message
from dicast_server.service.calls import Context, call
from dicast_server.service.host import Host, Status
from dicast_server.service.keys import Callers
from dicast_server.service.limits import Limits
from dicast_server.service.temperatures import Temperatures

DEFAULT_ALIASES = ("jev-latest", "jev-preview")
"""Names that clients of System One send unasked; they mean the default model."""

_STATUSES = {
    Status.STARTING: pb.Model.STATUS_STARTING,
    Status.READY: pb.Model.STATUS_READY,
    Status.REFUSED: pb.Model.STATUS_REFUSED,
}


class Catalogue:
    """Finds a model by id or alias. Names are compared exactly; the empty name is the default model."""

    def __init__(self, host: Host, source: str, aliases: Sequence[str] = DEFAULT_ALIASES) -> None:
        """One model; `source` stands for its id until it is loaded."""
        self._host = host
        self._source = source
        self._aliases = tuple(aliases)

    @property
    def hosts(self) -> list[Host]:
        """All models, the default one first."""
        return [self._host]

    @property
    def aliases(self) -> tuple[str, ...]:
        """Names that mean the default model."""
        return self._aliases

    def id_of(self, host: Host) -> str:
        """A model's id; until it is loaded, the name that it is loaded by, without folders."""
        served = host.served
        return served.model.id if served is not None else self._source.rstrip("/").rsplit("/", 1)[-1]

    def find(self, name: str) -> Host:
        """The model of a name.

        Raises:
            Failure: NOT_FOUND, with the names that there are.
        """
        id_ = self.id_of(self._host)
        if name in {"", id_, *self._aliases}:
            return self._host
        raise failures.model_not_found(name, [id_, *self._aliases])


class ModelServicer(ModelServiceServicer):
    """Shows the models of a catalogue."""

    def __init__(self, catalogue: Catalogue, limits: Limits, callers: Callers) -> None:
        self._catalogue = catalogue
        self._limits = limits
        self._callers = callers

    async def ListModels(  # noqa: N802 - the contract's name
        self, request: pb.ListModelsRequest, context: Context
    ) -> pb.ListModelsResponse:
        """List the models, the default one first."""
        async with call(context, "ListModels", None, logging.DEBUG):
            self._callers.tenant(context)
            return pb.ListModelsResponse(models=[self._describe(host) for host in self._catalogue.hosts])
        raise AssertionError("unreachable: the call was aborted")

    async def GetModel(  # noqa: N802
        self, request: pb.GetModelRequest, context: Context
    ) -> pb.GetModelResponse:
        """Show one model by id or alias."""
        async with call(context, "GetModel", None, logging.DEBUG):
            self._callers.tenant(context)
            return pb.GetModelResponse(model=self._describe(self._catalogue.find(request.name)))
        raise AssertionError("unreachable: the call was aborted")

    def _describe(self, host: Host) -> pb.Model:
        model = pb.Model(
            id=self._catalogue.id_of(host),
            aliases=self._catalogue.aliases,
            status=_STATUSES[host.status],
            status_message=host.status_message,
            question_types=list(host.registry.types),
            readouts=host.readouts(),
            limits=self._limits_message(host),
        )
        if host.ready_since is not None:
            loaded_at = timestamp_pb2.Timestamp()
            loaded_at.FromNanoseconds(int(host.ready_since * 1e9))
            model.loaded_at.CopyFrom(loaded_at)
        if (check := host.self_check) is not None:
            model.self_check.CopyFrom(
                pb.SelfCheck(
                    option_mass=check.option_mass,
                    right=check.right,
                    asked=check.asked,
                    predicate_direction=check.predicate_direction,
                )
            )
        self._add_loaded(model, host)
        return model

    def _add_loaded(self, model: pb.Model, host: Host) -> None:
        if (served := host.served) is None:
            return
        model.family = served.model.family
        model.description = f"{served.model.source}: {served.model.frame.description}"
        model.parameters = served.model.parameters
        model.quantization = served.model.quantization
        model.profile.CopyFrom(
            pb.Profile(
                name=served.profile.name,
                prompt_version=host.prompt_version,
                template_hash=served.model.frame.fingerprint,
                forward_tokens=served.machinery.forward_tokens,
            )
        )
        temperatures = host.temperatures or Temperatures(served.profile)
        model.calibration.CopyFrom(calibration_message(temperatures, host.wanted))
        store = served.reader.store
        counters = store.counters
        model.store.CopyFrom(
            pb.Store(
                budget_bytes=store.budget_bytes,
                used_bytes=counters.nbytes,
                hits=counters.hits,
                misses=counters.misses,
                evictions=counters.evicted,
            )
        )
        machinery = served.machinery
        model.engine.CopyFrom(
            pb.Engine(
                device=machinery.device,
                blas=machinery.blas,
                blas_threads=machinery.blas_threads,
                mlx_version=machinery.mlx_version,
                head_path=machinery.head_path,
                shared_tails=machinery.shares_forwards,
                costs_hash=machinery.costs,
            )
        )

    def _limits_message(self, host: Host) -> pb.Limits:
        limits, served = self._limits, host.served
        return pb.Limits(
            context_tokens=served.context if served is not None else 0,
            questions=limits.questions,
            options=limits.options,
            levels=limits.levels,
            orders=limits.orders,
            message_bytes=limits.message_bytes,
            json_depth=limits.json_depth,
            queued_requests=limits.in_flight,
            passes=limits.passes,
            whole_tokens=served.memory.longest_whole(served.context) if served is not None else 0,
        )
