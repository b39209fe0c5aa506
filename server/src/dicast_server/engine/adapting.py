"""Work that puts an adapter's reader beside the base's, or takes it away, between the forwards of others."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dicast_server.adapters.document import Adapter
from dicast_server.adapters.errors import AdapterRefused
from dicast_server.engine.machinery import Machinery
from dicast_server.engine.reader import Reader, Steps, Tally
from dicast_server.models.adapted import adapted
from dicast_server.models.load import LoadedModel


@dataclass(frozen=True, slots=True)
class Adapting:
    """Builds an adapter's reader, checks it, and gives it a number; results in its machinery.

    `weights` are the content of `adapters.safetensors`, `machinery` is the base's; the reader `pools` where
    the adapter brings a head. Fails with AdapterRefused.
    """

    loaded: LoadedModel
    adapter: Adapter
    weights: bytes
    number: int
    machinery: Machinery
    pools: bool = False
    nbytes: int = 0

    def start(self, reader: Reader, tally: Tally) -> Steps[Machinery]:
        """Three steps: the tree of modules, what runs it, and its tails; the last two run short forwards."""
        model = adapted(self.loaded, self.adapter, self.weights)
        yield ()
        try:
            made = yield from reader.adapt(model, self.number, self.pools)
        except ValueError as error:
            name = self.adapter.name
            raise AdapterRefused(
                f"the model with the adapter {name} cannot be read in parts: {error}"
            ) from error
        return [replace(self.machinery, head_path=made.head.path, shares_forwards=made.shares_forwards)]


@dataclass(frozen=True, slots=True)
class Dropping:
    """Takes an adapter's reader away, with its arrays and what it has kept."""

    number: int
    nbytes: int = 0

    def start(self, reader: Reader, tally: Tally) -> Steps[None]:
        """One step."""
        reader.drop(self.number)
        yield from ()
        return ()
