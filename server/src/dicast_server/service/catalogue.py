"""ModelService, and which name means which model."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from google.protobuf import timestamp_pb2

from dicast.v1 import model_service_pb2 as pb
from dicast.v1.model_service_pb2_grpc import ModelServiceServicer
from dicast_server.service import failures
from dicast_server.service.calibration_message import calibration_message
from dicast_server.service.calls import Context, call
from dicast_server.service.entry import Entry, Status
from dicast_server.service.host import Host
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
    """Finds a model by id or alias. Names are compared exactly; the empty name is the default model.

    An adapter is named by any name of the default model, a colon and its own.
    """

    def __init__(self, host: Host, source: str, aliases: Sequence[str] = DEFAULT_ALIASES) -> None:
        """One model and its adapters; `source` stands for its id until it is loaded.

        An alias `NAME` means the model, `NAME=ADAPTER` the model with that adapter.
        """
        self._host = host
        self._source = source
        parted = [alias.partition("=") for alias in aliases]
        self._aliases = tuple(name for name, _, adapter in parted if not adapter)
        self._of_adapters = {name: adapter for name, _, adapter in parted if adapter}

    @property
    def host(self) -> Host:
        """Runs all of them."""
        return self._host

    @property
    def entries(self) -> list[Entry]:
        """All models, the default one first."""
        return [self._host.default, *(self._host.adapted[name] for name in sorted(self._host.adapted))]

    def aliases_of(self, entry: Entry) -> list[str]:
        """Names that mean a model, besides its id."""
        named = [alias for alias, adapter in self._of_adapters.items() if adapter == entry.name]
        if entry is not self._host.default:
            return named
        # An adapter that is the default answers for its base too.
        return [*([self.base_id] if entry.name else []), *self._aliases, *named]

    @property
    def base_id(self) -> str:
        """The default model's id; until it is loaded, the name that it is loaded by, without folders."""
        served = self._host.served
        return served.model.id if served is not None else self._source.rstrip("/").rsplit("/", 1)[-1]

    def id_of(self, entry: Entry) -> str:
        """A model's id."""
        return f"{self.base_id}:{entry.name}" if entry.name else self.base_id

    def find(self, name: str) -> Entry:
        """The model of a name.

        Raises:
            Failure: NOT_FOUND, with the names that there are.
        """
        bases = {"", self.base_id, *self._aliases}
        if name in bases:
            return self._host.default
        adapter = self._of_adapters.get(name)
        if adapter is None:
            base, colon, named = name.rpartition(":")
            adapter = named if colon and base in bases else ""
        if adapter and adapter == self._host.default.name:
            return self._host.default
        if adapter in self._host.adapted:
            return self._host.adapted[adapter]
        there = [known for entry in self.entries for known in (self.id_of(entry), *self.aliases_of(entry))]
        raise failures.model_not_found(name, there)


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
            return pb.ListModelsResponse(models=[self._describe(entry) for entry in self._catalogue.entries])
        raise AssertionError("unreachable: the call was aborted")

    async def GetModel(  # noqa: N802
        self, request: pb.GetModelRequest, context: Context
    ) -> pb.GetModelResponse:
        """Show one model by id or alias."""
        async with call(context, "GetModel", None, logging.DEBUG):
            self._callers.tenant(context)
            return pb.GetModelResponse(model=self._describe(self._catalogue.find(request.name)))
        raise AssertionError("unreachable: the call was aborted")

    def _describe(self, entry: Entry) -> pb.Model:
        model = pb.Model(
            id=self._catalogue.id_of(entry),
            aliases=self._catalogue.aliases_of(entry),
            status=_STATUSES[entry.status],
            status_message=entry.status_message,
            question_types=list(entry.registry.types),
            readouts=entry.readouts(),
            limits=self._limits_message(entry),
        )
        if entry.ready_since is not None:
            loaded_at = timestamp_pb2.Timestamp()
            loaded_at.FromNanoseconds(int(entry.ready_since * 1e9))
            model.loaded_at.CopyFrom(loaded_at)
        if (check := entry.self_check) is not None:
            model.self_check.CopyFrom(
                pb.SelfCheck(
                    option_mass=check.option_mass,
                    right=check.right,
                    asked=check.asked,
                    predicate_direction=check.predicate_direction,
                )
            )
        if entry.name:
            model.adapter.CopyFrom(_adapter_message(entry, self._catalogue.base_id))
        self._add_loaded(model, entry)
        return model

    def _add_loaded(self, model: pb.Model, entry: Entry) -> None:
        if (served := entry.served) is None:
            return
        model.family = served.model.family
        model.description = f"{served.model.source}: {served.model.frame.description}"
        model.parameters = served.model.parameters
        model.quantization = served.model.quantization
        model.profile.CopyFrom(
            pb.Profile(
                name=served.profile.name,
                prompt_version=entry.prompt_version,
                template_hash=served.model.frame.fingerprint,
                forward_tokens=served.machinery.forward_tokens,
            )
        )
        temperatures = entry.temperatures or Temperatures(served.profile)
        model.calibration.CopyFrom(calibration_message(temperatures, entry.wanted))
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

    def _limits_message(self, entry: Entry) -> pb.Limits:
        limits, served = self._limits, entry.served
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


def _adapter_message(entry: Entry, base: str) -> pb.Adapter:
    message = pb.Adapter(name=entry.name, base=base)
    if (adapter := entry.adapter) is not None:
        message.hash = adapter.hash
        message.rank, message.modules = adapter.rank, len(adapter.modules)
        message.readout, message.style = adapter.tuned_for.readout, adapter.tuned_for.style.value
        message.settings = json.dumps(adapter.tuned_for.settings, ensure_ascii=False)
        message.verdict, message.data_hash = adapter.training.verdict, adapter.data_sha256
        message.made_at.FromDatetime(adapter.made)
    return message
