"""The embedded model as the training needs it: its planner, and its first layers in float32."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from numpy.typing import NDArray

from dicast_server import caches
from dicast_server.config import DEFAULT_MODEL
from dicast_server.readouts import pooled
from dicast_server.readouts.pooled_head import PooledHead
from dicast_server.readouts.profile import STOCK
from dicast_server.service.loading import Served, load_served
from dicast_server.service.planning import Planner
from dicast_server.service.registry import Registry

WEIGHTS = "base.npz"
"""The file of the first layers, in a work folder."""

PROFILE = replace(STOCK, name="adapter", readout=pooled.NAME)


@dataclass(frozen=True, slots=True)
class Base:
    """The model as it is loaded for serving."""

    served: Served

    @classmethod
    def load(cls) -> Base:
        """Load it; it is fetched where it is not there."""
        return cls(load_served(DEFAULT_MODEL, caches.location(), profile=PROFILE))

    def planner(self) -> Planner:
        """What writes the prompts; its head reads nothing sensible."""
        size = self.served.model.model.args.hidden_size
        return replace(self.served, head=PooledHead(MappingProxyType({}), size)).planner(Registry.installed())

    def write(self, path: Path, layers: int) -> None:
        """Write the first layers' weights, float32 under transformers' names, and their configuration."""
        args: Any = self.served.model.model.args
        weights: dict[str, Any] = {}
        for name, value in tree_flatten(self.served.model.model.parameters()):
            inner = name.removeprefix("model.")
            if not inner.startswith("layers.") or int(inner.split(".")[1]) < layers:
                weights[inner] = np.asarray(value.astype(mx.float32))
        config = {
            "vocab_size": args.vocab_size,
            "hidden_size": args.hidden_size,
            "intermediate_size": args.intermediate_size,
            "num_attention_heads": args.num_attention_heads,
            "num_key_value_heads": args.num_key_value_heads,
            "rms_norm_eps": args.rms_norm_eps,
            "rope_theta": args.rope_theta,
            "max_position_embeddings": args.max_position_embeddings,
        }
        temporary = path.with_name(f"{path.name}.tmp.npz")
        np.savez(temporary, config=np.frombuffer(json.dumps(config).encode(), np.uint8), **weights)
        temporary.rename(path)


def read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Configuration and weights that `Base.write` wrote."""
    with np.load(path) as found:
        weights = {name: found[name] for name in found.files}
    config: dict[str, Any] = json.loads(weights.pop("config").tobytes())
    return config, weights
