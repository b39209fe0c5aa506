"""The optimiser: Adam on low-rank weights in NumPy, the same on every device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dicast_server.engine.cpu_layers import Array

_MEAN, _SQUARE, _EPS = 0.9, 0.99, 1e-8


@dataclass(slots=True)
class Adam:
    """Adam (Kingma and Ba 2015) with bias correction; `steps` were taken."""

    means: dict[str, Array]
    squares: dict[str, Array]
    steps: int = 0

    @classmethod
    def of(cls, weights: Mapping[str, Array]) -> Adam:
        """At the start."""
        means, squares = ({name: np.zeros_like(each) for name, each in weights.items()} for _ in range(2))
        return cls(means, squares)

    def step(self, weights: dict[str, Array], gradients: Mapping[str, Array], rate: float) -> None:
        """Change weights in place against their gradients, by about `rate` each."""
        self.steps += 1
        for name, gradient in gradients.items():
            mean, square = self.means[name], self.squares[name]
            mean += (1 - _MEAN) * (gradient - mean)
            square += (1 - _SQUARE) * (gradient * gradient - square)
            corrected = square / (1 - _SQUARE**self.steps)
            np.sqrt(corrected, out=corrected)
            corrected += _EPS
            weights[name] -= (rate / (1 - _MEAN**self.steps)) * mean / corrected


def clipped(gradients: Mapping[str, Array], most: float) -> dict[str, Array]:
    """Gradients whose norm over all weights is at most `most`.

    Raises:
        FloatingPointError: it is not finite.
    """
    norm = float(np.sqrt(sum(float(np.vdot(each, each)) for each in gradients.values())))
    if not np.isfinite(norm):
        raise FloatingPointError("a gradient is not finite")
    factor = np.float32(min(1.0, most / norm) if norm else 1.0)
    return {name: each * factor for name, each in gradients.items()}
