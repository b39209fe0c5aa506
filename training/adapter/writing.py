"""From what was learned to an adapter's folder."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import numpy as safetensors

from dicast_server.adapters import file
from dicast_server.adapters.document import Adapter, Description, Training, TunedFor
from dicast_server.adapters.document import Base as BaseModel
from dicast_server.cli.default_adapter import NAME
from training.adapter.base import Base


@dataclass(frozen=True, slots=True)
class Learned:
    """What was learned: matrices of low rank times `scale` in the first `layers`, and a head's tensors."""

    low_rank: Mapping[str, NDArray[np.float32]]
    head: Mapping[str, NDArray[np.float32]]
    layers: int
    scale: float


def write(folder: Path, base: Base, learned: Learned, training: Training, data: Sequence[Path]) -> Adapter:
    """Write the adapter, its matrices in float16, which take half the bytes; `data` is what it learned from.

    Raises:
        AdapterFileError: the folder cannot be written.
    """
    planner = base.planner()
    model: Any = base.served.model
    modules = sorted({name.rpartition(".")[0] for name in learned.low_rank})
    rank = learned.low_rank[f"{modules[0]}.lora_a"].shape[1]
    description = Description(
        name=NAME,
        base=BaseModel(
            model=model.id,
            weights_hash=model.weights_hash,
            quantization=model.quantization,
            template_hash=model.frame.fingerprint,
            layers=len(model.model.layers),
        ),
        rank=rank,
        scale=learned.scale,
        modules=tuple(modules),
        tuned_for=TunedFor(readout=planner.profile.readout, prompt_version=planner.prompt_version),
        data_sha256=_sha256(data),
        made=dt.datetime.now(dt.UTC).replace(microsecond=0),
        dicast_version=version("dicast-server"),
        training=training,
    )
    return file.write(folder, description, _half(learned.low_rank), (learned.layers, _half(learned.head)))


def _half(tensors: Mapping[str, NDArray[np.float32]]) -> bytes:
    return safetensors.save({name: tensor.astype(np.float16) for name, tensor in tensors.items()})


def _sha256(paths: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()
