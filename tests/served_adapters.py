"""A tiny server with a folder of adapters, which a test looks at when it wants to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import tiny_adapters
from tiny_server import REGISTRY, Running, load_tiny, request, serving

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import model_service_pb2 as model_pb
from dicast_server.adapters.document import Adapter, TunedFor
from dicast_server.profiling.pinning import prompt_version
from dicast_server.readouts.profile import STOCK, OptionStyle
from dicast_server.service.adapters import Adapters
from dicast_server.service.loading import Served


@cache
def base() -> Served:
    """The tiny model, on the test's own thread."""
    return load_tiny()


def tuned_for(readout: str = "letters", style: OptionStyle = OptionStyle.PLAIN, **settings: Any) -> TunedFor:
    """A way of reading, with the version of its prompts."""
    profile = replace(STOCK, readout=readout, style=style, settings=tuple(settings.items()))
    version = prompt_version(profile, REGISTRY.readouts)
    return TunedFor(readout=readout, style=style, settings=settings, prompt_version=version)


def write(folder: Path, seed: int = 1, **fields: Any) -> Adapter:
    """A random adapter of the tiny model in a folder of its own."""
    return tiny_adapters.write(folder, base().model, seed, **{"tuned_for": tuned_for(), **fields})


def write_pooled(folder: Path, seed: int = 1, **fields: Any) -> Adapter:
    """A random adapter of the tiny model's first layer, with a head."""
    return tiny_adapters.write_pooled(folder, base().model, tuned_for("pooled"), seed=seed, **fields)


@dataclass
class Adapted:
    """A server and the adapters of its folder."""

    running: Running
    adapters: Adapters
    folder: Path

    async def ask(self, model: str = "", **more: Any) -> tuple[str, list[Any]]:
        """Ask a model: its name in the reply, and the answers in full."""
        sent = request(**more)
        sent.model = model
        sent.options.detail = pb.DETAIL_LEVEL_FULL
        reply = await self.running.decisions.Decide(sent)
        return reply.summary.model, [answer.SerializeToString() for answer in reply.answers]

    def of(self, model: str, **more: Any) -> service_pb.DecideRequest:
        """A request to a model."""
        sent = request(**more)
        sent.model = model
        return sent

    async def models(self) -> dict[str, model_pb.Model]:
        """What the server says of its models."""
        listed = await self.running.models.ListModels(model_pb.ListModelsRequest())
        return {model.id: model for model in listed.models}


@asynccontextmanager
async def adapted(folder: Path, **settings: Any) -> AsyncIterator[Adapted]:
    """Serve the tiny model with the adapters of a folder, which is looked at once."""
    async with serving(**settings) as running:
        adapters = Adapters(running.host, lambda _: folder)
        await adapters.scan()
        yield Adapted(running, adapters, folder)
