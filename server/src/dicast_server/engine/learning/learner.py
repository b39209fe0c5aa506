"""What learns: which layers of a model can, and the way that runs on the device at hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from mlx import nn

from dicast_server.engine.cpu_layers import Array
from dicast_server.engine.cpu_weights import is_dense
from dicast_server.engine.learning.blocks import Weights
from dicast_server.engine.learning.dense import DenseLearner
from dicast_server.engine.learning.lesson import Lesson
from dicast_server.engine.learning.mlx_learner import MlxLearner
from dicast_server.engine.learning.reading import Read


class CannotLearn(Exception):
    """A model cannot be tuned; the message is one sentence that says why."""


class Learner(Protocol):
    """Reads lessons under low-rank weights, and says how these should change."""

    def learn(self, lessons: Sequence[Lesson], learned: Weights) -> tuple[list[Read], dict[str, Array]]:
        """What each example is read as, and the gradients of the sum of all losses by the weights."""
        ...

    def read(self, lessons: Sequence[Lesson], learned: Weights) -> list[Read]:
        """What each example is read as."""
        ...


def shapes(model: nn.Module, layers: int) -> dict[str, tuple[int, int]]:
    """The linear layers in a model's last `layers`, each with its (in, out), by path in ascending order.

    Raises:
        CannotLearn: there are none.
    """
    found: dict[str, tuple[int, int]] = {}
    last = range(len(model.layers) - layers, len(model.layers))
    for path, module in model.named_modules():
        match = re.search(r"(?:^|\.)layers\.(\d+)\.", path)
        if match is None or int(match[1]) not in last:
            continue
        if type(module) is nn.Linear:
            out, into = module.weight.shape
        elif type(module) is nn.QuantizedLinear:
            out, packed = module.weight.shape
            into = packed * 32 // module.bits
        else:
            continue
        found[path] = (into, out)
    if not found:
        raise CannotLearn("it has no linear layers that could learn")
    return dict(sorted(found.items()))


def learner_of(model: nn.Module, layers: int, scale: float, threads: int, kept_bytes: int) -> Learner:
    """What learns in a model's last `layers`: NumPy for dense decoders on a CPU, MLX for all else.

    What is learned counts `scale` times. `kept_bytes` bound what is kept of the layers that do not learn.

    Raises:
        CannotLearn: the model has nothing that could, or a layer that tails cannot share.
    """
    paths = shapes(model, layers)
    if is_dense(model):
        return DenseLearner(model, layers, scale, threads, kept_bytes)
    try:
        return MlxLearner(model, list(paths), scale)
    except ValueError as error:
        raise CannotLearn(str(error)) from error
