"""Loads a model for serving, on the engine thread: its arrays, its prompt, its letters, its profile."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from dicast_server import blas
from dicast_server.adapters.document import Adapter
from dicast_server.engine.costs import Costs
from dicast_server.engine.footprint import Footprint
from dicast_server.engine.machinery import Machinery, machinery
from dicast_server.engine.reader import COPY_BYTES, FORWARD_TOKENS, Reader
from dicast_server.engine.store import PrefixStore
from dicast_server.models import ModelRefused
from dicast_server.models.load import LoadedModel, load
from dicast_server.profiling.pinning import Identity, profile_of
from dicast_server.profiling.profile_file import ProfileFile, shipped
from dicast_server.readouts.letters import LETTERS
from dicast_server.readouts.pooled_head import PooledHead
from dicast_server.readouts.profile import Profile
from dicast_server.service.calibrated import Reading
from dicast_server.service.memory import Memory
from dicast_server.service.planning import Planner
from dicast_server.service.registry import Registry
from dicast_server.service.replies import Replies
from dicast_server.service.temperatures import Temperatures


@dataclass(frozen=True, slots=True)
class Tuning:
    """An adapter: the name that it is served under, what it is, and the number of its reader."""

    name: str
    adapter: Adapter
    number: int


@dataclass(frozen=True, slots=True)
class Served:
    """A loaded model with all that the service knows of it.

    `labels` are the letters' token ids; what is read at once may take `work_bytes`. `reader` is the base's,
    also with a `tuning`, whose own reader is beside it; the rest is as the adapter has it. `head` is that of
    an adapter that reads means of hidden states: by it alone the model is read.
    """

    reader: Reader
    model: LoadedModel
    machinery: Machinery
    profile: Profile
    labels: dict[str, int]
    work_bytes: int | None = None
    tuning: Tuning | None = None
    head: PooledHead | None = None

    @property
    def id(self) -> str:
        """The name that answers carry."""
        return self.model.id if self.tuning is None else f"{self.model.id}:{self.tuning.name}"

    @property
    def context(self) -> int:
        """The most tokens of a prompt: as many as the model reads and as fit into `work_bytes`."""
        most = self.model.context
        return most if self.work_bytes is None else self._footprint.within(self.work_bytes, most)

    @property
    def salt(self) -> bytes:
        """All of the model that decides the bits of a prefix."""
        machinery = self.machinery
        decisive: list[str | int | float] = [
            self.model.weights_hash,
            self.model.quantization,
            self.model.frame.fingerprint,
            machinery.forward_tokens,
            machinery.costs,
        ]
        if self.tuning is not None:
            adapter = self.tuning.adapter
            # The scale is not among the weights.
            decisive += [adapter.hash, adapter.scale]
        if self.head is not None:
            decisive.append("outputs are kept")
        return hashlib.sha256(json.dumps(decisive).encode()).digest()

    @property
    def memory(self) -> Memory:
        """What requests take while they are read."""
        return Memory(self._footprint, self.reader.whole_forward, self.work_bytes)

    @property
    def _footprint(self) -> Footprint:
        """That of the base and, with a head, of the outputs besides; the layers may be fewer."""
        footprint = self.reader.footprint
        if self.head is None:
            return footprint
        return replace(footprint, token_bytes=footprint.token_bytes + 4 * self.head.size)

    @property
    def reading(self) -> Reading:
        """What a calibration is keyed by."""
        model = self.model
        return Reading(
            model.id,
            model.weights_hash,
            model.quantization,
            model.frame.fingerprint,
            self.profile,
            adapter=self.tuning.adapter.hash if self.tuning is not None else "",
        )

    def planner(self, registry: Registry, temperatures: Temperatures | None = None) -> Planner:
        """What plans requests for the model; without `temperatures` by those of the profile."""
        model, tuning = self.model, self.tuning
        return Planner(
            replies=Replies(model.frames.of),
            profile=self.profile,
            context=self.context,
            registry=registry,
            salt=self.salt,
            memory=self.memory,
            temperatures=temperatures or Temperatures(self.profile),
            model=self.id,
            weights_hash=model.weights_hash
            if tuning is None
            else f"{model.weights_hash}:{tuning.adapter.hash}",
            through=tuning.number if tuning is not None else 0,
            head=self.head,
        )

    def openings(self) -> Iterator[Served]:
        """The same model with each other way in which its replies could begin."""
        for frames in self.model.frames.openings():
            model = replace(self.model, frames=frames)
            try:
                labels = _letter_tokens(model)
            except ModelRefused:  # the letters are no tokens of their own behind this one
                continue
            yield replace(self, model=model, labels=labels)


def load_served(
    source: str,
    cache: Path,
    *,
    profile: Profile | ProfileFile | None = None,
    registry: Registry | None = None,
    forward_tokens: int = FORWARD_TOKENS,
    store_bytes: int = 0,
    work_bytes: int | None = None,
    copy_bytes: int = COPY_BYTES,
    threads: int | None = None,
    costs: Costs | None = None,
) -> Served:
    """Load a model by folder, file or name.

    `profile` is what it is read with; None is the one that comes with dicast for it. `registry` has the
    readouts that a profile may name; None is what is installed. `store_bytes` is the budget of kept prefixes,
    `work_bytes` that of what is being read, `copy_bytes` that of the copies a layer makes for the rows of a
    forward; `costs` replaces the device's own table.

    Raises:
        ModelRefused: with one sentence that says why.
    """
    library = blas.ensure()
    if threads is not None and blas.set_threads(threads):
        library = replace(library, threads=threads)
    model = load(source, cache)
    readouts = (registry or Registry.installed()).readouts
    try:
        chosen = profile_of(identity(model), profile, readouts, shipped())
    except ValueError as error:
        raise ModelRefused(f"{error}.") from error
    labels = _letter_tokens(model)
    store = PrefixStore(store_bytes, time.monotonic)
    try:
        reader = Reader(
            model.model,
            list(labels.values())[:8],
            forward_tokens,
            store,
            threads=library.threads or 1,
            costs=costs,
            copy_bytes=copy_bytes,
        )
    except ValueError as error:
        raise ModelRefused(f"{model.source} cannot be read in parts: {error}.") from error
    return Served(reader, model, machinery(reader, library), chosen, labels, work_bytes)


def identity(model: LoadedModel) -> Identity:
    """What a model's profile is pinned to; the frame is the template's own, whatever replies begin with."""
    return Identity(model.id, model.weights_hash, model.frame.fingerprint)


def _letter_tokens(model: LoadedModel) -> dict[str, int]:
    found = model.frame.label_ids(LETTERS)
    if len(found) < len(LETTERS):
        missing = "".join(letter for letter in LETTERS if letter not in found)
        raise ModelRefused(
            f"{model.source}: {missing} are not single tokens of their own at the start of the reply, which "
            "the letters readout needs."
        )
    return found
