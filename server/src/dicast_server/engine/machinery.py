"""What runs the model: device, libraries and the ways that were chosen for it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata

import mlx.core as mx

from dicast_server.blas import Blas
from dicast_server.engine.reader import Reader


@dataclass(frozen=True, slots=True)
class Machinery:
    """Device ("cpu" or "gpu"), versions, and what the reader found out about the model.

    `costs` is the hash of the table that tails are grouped by. `blas` is the matrix library of a CPU with
    its version; empty, with 0 threads, on other devices.
    """

    device: str
    mlx_version: str
    blas: str
    blas_threads: int
    forward_tokens: int
    costs: str
    head_path: str
    shares_forwards: bool


def machinery(reader: Reader, blas: Blas) -> Machinery:
    """Describe a reader on MLX's default device."""
    on_cpu = mx.default_device() == mx.cpu
    return Machinery(
        device="cpu" if on_cpu else "gpu",
        mlx_version=metadata.version("mlx"),
        blas=blas.name if on_cpu else "",
        blas_threads=(blas.threads or 0) if on_cpu else 0,
        forward_tokens=reader.forward_tokens,
        costs=reader.costs.hash,
        head_path=reader.head.path,
        shares_forwards=reader.shares_forwards,
    )
