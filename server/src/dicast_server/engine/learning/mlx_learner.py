"""Learning by MLX's own gradients: any model that the engine reads over views, on any device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.tuner.lora import LoRALinear

from dicast_server.engine.cpu_layers import Array
from dicast_server.engine.layers import Layer, layers_of
from dicast_server.engine.learning.blocks import Weights
from dicast_server.engine.learning.lesson import Lesson
from dicast_server.engine.learning.reading import MASS_WEIGHT, Read, read
from dicast_server.engine.stock import Stock
from dicast_server.models.adapted import with_modules


class MlxLearner:
    """Runs lessons as the engine does: the prefix first, then all tails over a view of it.

    The base is shared and frozen. Everything runs on the thread that made it.
    """

    def __init__(self, model: nn.Module, paths: Sequence[str], scale: float) -> None:
        """`paths` are the linear layers that learn.

        Raises:
            ValueError: the model has a layer without a view.
        """
        layers = layers_of(model)
        if layers is None:
            raise ValueError("one of its layers remembers in a way that tails cannot share")
        self._layers: Sequence[Layer] = layers
        modules = dict(model.named_modules())
        self._lora = {path: LoRALinear.from_base(modules[path], 1, 0.0, scale) for path in paths}
        self._model: nn.Module = with_modules(model, self._lora)
        self._model.freeze()
        for lora in self._lora.values():
            lora.unfreeze(keys=["lora_a", "lora_b"])
        self._stock = Stock(self._model, [1, 2, 3])

    def learn(self, lessons: Sequence[Lesson], learned: Weights) -> tuple[list[Read], dict[str, Array]]:
        """As `Learner.learn`, one lesson after the other."""
        self._take(learned)
        found: list[Read] = []
        total: dict[str, Any] = {}
        for lesson in lessons:

            def loss(model: nn.Module, lesson: Lesson = lesson) -> tuple[mx.array, mx.array]:
                logits = self._logits(lesson)
                return _loss(logits, lesson), logits

            (_, logits), gradients = nn.value_and_grad(self._model, loss)(self._model)
            mx.eval(logits, gradients)
            found += read(np.array(logits), lesson.examples)
            for name, gradient in tree_flatten(gradients):
                total[name] = total[name] + gradient if name in total else gradient
        mx.eval(total)
        return found, {name: np.array(gradient.astype(mx.float32)) for name, gradient in total.items()}

    def read(self, lessons: Sequence[Lesson], learned: Weights) -> list[Read]:
        """As `Learner.read`."""
        self._take(learned)
        return [each for lesson in lessons for each in read(np.array(self._logits(lesson)), lesson.examples)]

    def _take(self, learned: Weights) -> None:
        for path, lora in self._lora.items():
            lora.lora_a = mx.array(learned[f"{path}.lora_a"])
            lora.lora_b = mx.array(learned[f"{path}.lora_b"])

    def _logits(self, lesson: Lesson) -> mx.array:
        """Logits at the examples' ends, float32 (examples, vocabulary)."""
        views: list[Any] = [layer.view([], 0, 1) for layer in self._layers]
        self._stock.trunk(mx.array([list(lesson.prefix)]), cache=views)
        rows, start = len(lesson.examples), len(lesson.prefix)
        shown: list[Any] = [
            layer.view([view.added], start, rows) for layer, view in zip(self._layers, views, strict=True)
        ]
        width = max(len(example.tail) for example in lesson.examples)
        # Padded on the right, where causal attention and recurrence never look.
        tails = [[*example.tail, *[0] * (width - len(example.tail))] for example in lesson.examples]
        output = self._stock.trunk(mx.array(tails), cache=shown)
        ends = mx.array([len(example.tail) - 1 for example in lesson.examples])
        return self._stock.logits(output[mx.arange(rows), ends])


def _loss(logits: mx.array, lesson: Lesson) -> mx.array:
    """The sum of the examples' losses (`reading.Read.loss`)."""
    losses = []
    for row, example in zip(logits, lesson.examples, strict=True):
        labels = row[mx.array(list(example.labels))]
        own = mx.logsumexp(labels)
        losses.append(own - labels[example.right] + MASS_WEIGHT * (mx.logsumexp(row) - own))
    return mx.sum(mx.stack(losses))
