"""The training itself: epochs of lessons, a look at rows held out after each, and the best weights kept."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dicast_server.engine.cpu_layers import Array
from dicast_server.engine.learning.learner import Learner
from dicast_server.engine.learning.lesson import Lesson
from dicast_server.engine.learning.reading import Read
from dicast_server.tuning.adam import Adam, clipped
from dicast_server.tuning.settings import Schedule

_MOST_NORM = 1.0


@dataclass(frozen=True, slots=True)
class Epoch:
    """Mean losses: of the lessons as they were learned, and of the rows held out behind them.

    `held_out` is the log loss of the right option alone, in nats; `accuracy` is theirs too.
    """

    learned: float
    held_out: float
    accuracy: float


@dataclass(slots=True)
class State:
    """Where a training stands; all that is needed to go on with it.

    `sum_` and `examples` are of the epoch that runs. `best` are the weights behind the epoch with the least
    held-out loss, and those of the base until one beats it.
    """

    weights: dict[str, Array]
    adam: Adam
    best: dict[str, Array]
    epochs: list[Epoch] = field(default_factory=list)
    best_loss: float = math.inf
    best_epoch: int = 0
    step: int = 0
    sum_: float = 0.0
    examples: int = 0

    @classmethod
    def of(cls, weights: Mapping[str, Array]) -> State:
        """At the start, with copies of the weights, which are changed in place."""
        own, best = ({name: each.copy() for name, each in weights.items()} for _ in range(2))
        return cls(own, Adam.of(own), best)


class Stopped(Exception):
    """Somebody asked for the training to end; its state can be gone on with."""


class Diverged(Exception):
    """A loss or a gradient is no finite number any more."""


@dataclass(frozen=True, slots=True)
class Training:
    """Learns lessons; whoever starts it again with a state that it left ends with the same weights.

    `lessons(epoch)` are those of an epoch, the same at each call.
    """

    learner: Learner
    schedule: Schedule
    lessons: Callable[[int], Sequence[Lesson]]
    stopping: Sequence[Lesson]

    def run(
        self,
        state: State,
        told: Callable[[int], None] = lambda tokens: None,
        kept: Callable[[State], None] = lambda state: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> State:
        """Train to the end.

        Args:
            state: where to begin; it is changed.
            told: hears of tokens that were learned.
            kept: hears after every step of a state that could be gone on with.
            stop: asked before every step.

        Raises:
            Stopped: `stop` said so.
            Diverged: the learning rate is too high for these lessons.
        """
        if not state.epochs and not state.step:
            state.best_loss, _ = judged(self.learner.read(self.stopping, state.weights), self.stopping)
        a_epoch = math.ceil(len(self.lessons(0)) / self.schedule.lessons)
        steps = a_epoch * self.schedule.epochs
        while not self._over(state):
            batches = self._batches(len(state.epochs))
            for batch in batches[state.step - len(state.epochs) * a_epoch :]:
                if stop():
                    raise Stopped
                self._step(batch, state, steps)
                told(sum(lesson.size for lesson in batch))
                kept(state)
            self._end_epoch(state)
            kept(state)
        return state

    def _over(self, state: State) -> bool:
        done = len(state.epochs)
        return done >= self.schedule.epochs or done - state.best_epoch >= self.schedule.patience

    def _batches(self, epoch: int) -> list[tuple[Lesson, ...]]:
        lessons = list(self.lessons(epoch))
        random.Random(f"{self.schedule.seed} {epoch}").shuffle(lessons)
        size = self.schedule.lessons
        return [tuple(lessons[start : start + size]) for start in range(0, len(lessons), size)]

    def _step(self, batch: Sequence[Lesson], state: State, steps: int) -> None:
        reads, gradients = self.learner.learn(batch, state.weights)
        losses = [read.loss(right) for read, right in zip(reads, _rights(batch), strict=True)]
        if not all(map(math.isfinite, losses)):
            raise Diverged(f"step {state.step + 1}: a loss is not finite")
        mean = {name: each / np.float32(len(reads)) for name, each in gradients.items()}
        try:
            mean = clipped(mean, _MOST_NORM)
        except FloatingPointError as error:
            raise Diverged(f"step {state.step + 1}: {error}") from error
        state.step += 1
        state.adam.step(state.weights, mean, self.schedule.rate(state.step, steps))
        state.sum_ += sum(losses)
        state.examples += len(losses)

    def _end_epoch(self, state: State) -> None:
        held_out, accuracy = judged(self.learner.read(self.stopping, state.weights), self.stopping)
        state.epochs.append(Epoch(state.sum_ / max(1, state.examples), held_out, accuracy))
        state.sum_, state.examples = 0.0, 0
        if held_out < state.best_loss:
            state.best_loss, state.best_epoch = held_out, len(state.epochs)
            state.best = {name: each.copy() for name, each in state.weights.items()}


def started(shapes: dict[str, tuple[int, int]], rank: int, seed: int) -> dict[str, Array]:
    """Low-rank weights that change nothing yet: A uniform in +-1 / sqrt(in), B zero, float32."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for path, (into, out) in shapes.items():
        bound = 1 / math.sqrt(into)
        found[f"{path}.lora_a"] = rng.uniform(-bound, bound, (into, rank)).astype(np.float32)
        found[f"{path}.lora_b"] = np.zeros((rank, out), np.float32)
    return found


def judged(reads: Sequence[Read], lessons: Sequence[Lesson]) -> tuple[float, float]:
    """The mean log loss of the right labels, and the share of them that came first."""
    pairs = list(zip(reads, _rights(lessons), strict=True))
    loss = -sum(float(read.log_probabilities[right]) for read, right in pairs) / len(pairs)
    hits = sum(int(read.log_probabilities.argmax()) == right for read, right in pairs)
    return loss, hits / len(pairs)


def _rights(lessons: Sequence[Lesson]) -> list[int]:
    return [example.right for lesson in lessons for example in lesson.examples]
