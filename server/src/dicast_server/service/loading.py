"""Loads a model for serving, on the engine thread: its arrays, its prompt, its letters, its profile."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

from dicast_server import blas
from dicast_server.engine.costs import Costs
from dicast_server.engine.machinery import Machinery, machinery
from dicast_server.engine.reader import COPY_BYTES, FORWARD_TOKENS, Reader
from dicast_server.engine.store import PrefixStore
from dicast_server.models import ModelRefused
from dicast_server.models.load import LoadedModel, load
from dicast_server.readouts.letters import LETTERS
from dicast_server.readouts.profile import PROFILES, Profile, profile_for


@dataclass(frozen=True, slots=True)
class Served:
    """A loaded model with all that the service knows of it.

    `labels` are the letters' token ids; what is read at once may take `work_bytes`.
    """

    reader: Reader
    model: LoadedModel
    machinery: Machinery
    profile: Profile
    labels: dict[str, int]
    work_bytes: int | None = None

    @property
    def context(self) -> int:
        """The most tokens of a prompt: as many as the model reads and as fit into `work_bytes`."""
        most = self.model.context
        return most if self.work_bytes is None else self.reader.footprint.within(self.work_bytes, most)

    @property
    def salt(self) -> bytes:
        """All of the model that decides the bits of a prefix."""
        machinery = self.machinery
        decisive = [
            self.model.weights_hash,
            self.model.quantization,
            machinery.forward_tokens,
            machinery.costs,
        ]
        return hashlib.sha256(json.dumps(decisive).encode()).digest()


def load_served(
    source: str,
    cache: Path,
    *,
    profile: str | None = None,
    forward_tokens: int = FORWARD_TOKENS,
    store_bytes: int = 0,
    work_bytes: int | None = None,
    copy_bytes: int = COPY_BYTES,
    threads: int | None = None,
    costs: Costs | None = None,
) -> Served:
    """Load a model by folder, file or name; `profile` overrides the one that its id matches.

    `store_bytes` is the budget of kept prefixes, `work_bytes` that of what is being read,
    `copy_bytes` that of the copies a layer makes for the rows of a forward; `costs` replaces the device's own
    table.

    Raises:
        ModelRefused: with one sentence that says why.
    """
    library = blas.ensure()
    if threads is not None and blas.set_threads(threads):
        library = replace(library, threads=threads)
    model = load(source, cache)
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
    chosen = profile_for(model.id) if profile is None else PROFILES[profile]
    return Served(reader, model, machinery(reader, library), chosen, labels, work_bytes)


def _letter_tokens(model: LoadedModel) -> dict[str, int]:
    labels = {letter: model.frame.label_id(letter) for letter in LETTERS}
    found = {letter: id_ for letter, id_ in labels.items() if id_ is not None}
    if len(set(found.values())) < len(LETTERS):
        missing = "".join(letter for letter in LETTERS if letter not in found) or "some letters"
        raise ModelRefused(
            f"{model.source}: {missing} are not single tokens of their own at the start of the reply, which "
            "the letters readout needs."
        )
    return found
