"""One tuning, from questions in three parts to the best weights and what they are worth."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import NamedTuple

from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.calibration.rows import LeftOut
from dicast_server.engine.cpu_layers import Array
from dicast_server.engine.learning.learner import Learner
from dicast_server.engine.learning.lesson import Lesson
from dicast_server.engine.learning.reading import MASS_WEIGHT
from dicast_server.evaluation.comparison import Evaluation, System, evaluate
from dicast_server.tuning.checks import MIN_ROWS, NotLearnable
from dicast_server.tuning.judging import predictions
from dicast_server.tuning.lessons import Classroom, reordered
from dicast_server.tuning.parts import Parts
from dicast_server.tuning.settings import Schedule
from dicast_server.tuning.training import State, Training

ORDERS = 3
"""In how many orders shuffled options are learned, a new one each epoch until they come again.

What the layers below those that learn make of a lesson is then read once an order, and kept.
"""


class Counts(NamedTuple):
    """How many questions are in each part, of those that can be read."""

    learned: int
    stopping: int
    judged: int


class Tuner:
    """Tunes one model on questions in three parts."""

    def __init__(
        self,
        learner: Learner,
        classroom: Classroom,
        parts: Parts,
        start: Mapping[str, Array],
        schedule: Schedule,
    ) -> None:
        """Make all lessons; `start` are low-rank weights that change nothing yet.

        Raises:
            NotLearnable: too few of the questions can be read.
            CannotBeRead: the readout reads no single label.
        """
        self._learner, self._start, self._schedule = learner, start, schedule
        self.prompt_version = classroom.planner.prompt_version
        self._stopping = classroom.lessons(parts.stopping)
        self._judged = classroom.lessons(parts.judged)
        self._moved = classroom.lessons(_shuffled(parts.judged, "judged"))
        orders = range(min(ORDERS, schedule.epochs)) if schedule.shuffled else ()
        self._learned = [
            classroom.lessons(_shuffled(parts.learned, f"{schedule.seed} {order}")) for order in orders
        ] or [classroom.lessons(parts.learned)]
        self.counts = Counts(self._learned[0].rows, self._stopping.rows, self._judged.rows)
        rows = sum(self.counts)
        if rows < MIN_ROWS or not all(self.counts):
            why = f"; the first that cannot {self.left_out[0].reason}" if self.left_out else ""
            raise NotLearnable(f"{rows} of the questions can be read, and {MIN_ROWS} are the least{why}")

    @property
    def left_out(self) -> list[LeftOut]:
        """The questions that the model cannot read, in the order of their lines."""
        made = (*self._learned, self._stopping, self._judged)
        by_line = {each.line: each for part in made for each in part.left_out}
        return [by_line[line] for line in sorted(by_line)]

    @property
    def tokens(self) -> Sequence[int]:
        """How many tokens each epoch has."""
        sizes = [sum(lesson.size for lesson in made.lessons) for made in self._learned]
        return [sizes[epoch % len(sizes)] for epoch in range(self._schedule.epochs)]

    def digest(self, base: str, data_sha256: str) -> str:
        """Names all that decides what comes out; `base` names the model and how it is read."""
        sizes = {name: each.shape for name, each in self._start.items()}
        said = [base, data_sha256, asdict(self._schedule), sizes, ORDERS, MASS_WEIGHT]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()

    def train(
        self,
        state: State,
        told: Callable[[int], None],
        kept: Callable[[State], None],
        stop: Callable[[], bool],
    ) -> None:
        """Train to the end, as `Training.run` has it."""

        def lessons(epoch: int) -> Sequence[Lesson]:
            return self._learned[epoch % len(self._learned)].lessons

        training = Training(self._learner, self._schedule, lessons, self._stopping.lessons)
        training.run(state, told, kept, stop)

    def judge(self, weights: Mapping[str, Array], base: str, tuned: str) -> Evaluation:
        """Base against tuned, under these names, on the questions that were held out."""
        made = self._judged
        systems = [
            System(name, predictions(made.planned, self._learner.read(made.lessons, learned)), ())
            for name, learned in ((base, self._start), (tuned, weights))
        ]
        return evaluate(systems)

    def moved(self, weights: Mapping[str, Array]) -> float | None:
        """The share of choices that are right with their options in another order; None without choices."""
        made = self._moved
        right = [
            prediction.right
            for prediction in predictions(made.planned, self._learner.read(made.lessons, weights))
            if prediction.kind == "choice"
        ]
        return sum(right) / len(right) if right else None


def _shuffled(questions: Sequence[LabelledQuestion], seed: str) -> list[LabelledQuestion]:
    return [reordered(each, random.Random(f"{seed} {each.id}")) for each in questions]
