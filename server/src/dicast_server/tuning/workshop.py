"""All that a tuning needs, from a model's name to the adapter's folder."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import safetensors.numpy

from dicast_server import caches
from dicast_server.adapters import file, places
from dicast_server.adapters.document import Base, Description, Training, TunedFor
from dicast_server.engine.cpu_layers import Array
from dicast_server.engine.learning.learner import learner_of, shapes
from dicast_server.evaluation.comparison import Evaluation
from dicast_server.profiling.profile_file import ProfileFile
from dicast_server.readouts.profile import Profile
from dicast_server.service.loading import Served, load_served
from dicast_server.service.registry import Registry
from dicast_server.tuning.checkpoint import Checkpoint
from dicast_server.tuning.lessons import Classroom
from dicast_server.tuning.opening import opened
from dicast_server.tuning.parts import Parts
from dicast_server.tuning.settings import LowRank, Schedule
from dicast_server.tuning.training import State, started
from dicast_server.tuning.tuner import Tuner
from dicast_server.tuning.verdicts import Verdict, verdict

KEPT_BYTES = 1 << 30
"""What is kept of layers that do not learn: 4 bytes a token and hidden unit, 450,000 tokens of SmolLM2."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """What came of a tuning: the best weights and what they are worth on the rows that were held out."""

    state: State
    evaluation: Evaluation
    moved: float | None
    """The share of choices that they get right with the options in another order."""

    @property
    def verdict(self) -> Verdict:
        """Whether they are better than the base."""
        return verdict(self.evaluation)


@dataclass(frozen=True, slots=True)
class Workshop:
    """A loaded model, what it learns from, and the place where a stopped tuning is kept."""

    served: Served
    tuner: Tuner
    parts: Parts
    low_rank: LowRank
    schedule: Schedule
    shapes: Mapping[str, tuple[int, int]]
    start: dict[str, Array]
    started_at: float

    @classmethod
    def open(
        cls,
        source: str,
        parts: Parts,
        *,
        profile: Profile | ProfileFile | None,
        threads: int | None,
        low_rank: LowRank,
        schedule: Schedule,
    ) -> Workshop:
        """Load a model and make its lessons, on the thread that is to train.

        Raises:
            ModelRefused, PluginError: as a server would have it.
            CannotLearn, CannotBeRead, NotLearnable: it cannot be tuned, or not on these questions.
        """
        registry = Registry.installed()
        served = load_served(source, caches.location(), profile=profile, registry=registry, threads=threads)
        model = served.model.model
        layers = min(low_rank.layers, len(model.layers))
        learner = learner_of(model, layers, low_rank.scale, served.machinery.blas_threads or 1, KEPT_BYTES)
        found = shapes(model, layers)
        start = started(found, low_rank.rank, schedule.seed)
        served = opened(served, registry, learner, start, parts.learned)
        tuner = Tuner(learner, Classroom(served.planner(registry)), parts, start, schedule)
        return cls(served, tuner, parts, low_rank, schedule, found, start, time.monotonic())

    @property
    def model(self) -> str:
        """The base's id."""
        return self.served.model.id

    def place(self, name: str) -> Path:
        """Where a server looks for an adapter of this name."""
        return places.folder(self.model) / name

    def checkpoint(self, data_sha256: str) -> Checkpoint:
        """The file of this tuning."""
        said = [self.served.salt.hex(), self.served.profile.name, self._tuned_for.model_dump(mode="json")]
        digest = self.tuner.digest(json.dumps([*said, asdict(self.low_rank)]), data_sha256)
        return Checkpoint(caches.location() / "tuning" / f"{digest[:16]}.npz", digest)

    def finish(self, state: State, name: str) -> Tuned:
        """Judge what was learned, under a name of its own."""
        evaluation = self.tuner.judge(state.best, self.model, name)
        return Tuned(state, evaluation, self.tuner.moved(state.best))

    def write(self, folder: Path, name: str, data_sha256: str, tuned: Tuned) -> None:
        """Write the adapter.

        Raises:
            AdapterFileError: the folder cannot be written; what was there stays.
        """
        description = Description(
            name=name,
            base=self._base,
            rank=self.low_rank.rank,
            scale=self.low_rank.scale,
            modules=tuple(self.shapes),
            tuned_for=self._tuned_for,
            data_sha256=data_sha256,
            made=dt.datetime.now(dt.UTC).replace(microsecond=0),
            dicast_version=version("dicast-server"),
            training=self._record(tuned),
        )
        file.write(folder, description, safetensors.numpy.save(tuned.state.best))

    @property
    def _base(self) -> Base:
        model = self.served.model
        return Base(
            model=model.id,
            weights_hash=model.weights_hash,
            quantization=model.quantization,
            template_hash=model.frame.fingerprint,
            layers=len(model.model.layers),
        )

    @property
    def _tuned_for(self) -> TunedFor:
        profile = self.served.profile
        return TunedFor(
            readout=profile.readout,
            settings=dict(profile.settings),
            style=profile.style,
            prompt_version=self.tuner.prompt_version,
        )

    def _record(self, tuned: Tuned) -> Training:
        base, after = tuned.evaluation.parts[0].figures
        state = tuned.state
        rows = (*self.parts.learned, *self.parts.stopping, *self.parts.judged)
        counts = self.tuner.counts
        return Training(
            rows=len(rows),
            groups=len({row.group for row in rows}),
            epochs=len(state.epochs),
            steps=state.step,
            seed=self.schedule.seed,
            learning_rate=self.schedule.learning_rate,
            seconds=round(time.monotonic() - self.started_at, 1),
            loss_before=base["log_loss"].value,
            loss_after=after["log_loss"].value,
            accuracy_before=base["accuracy"].value,
            accuracy_after=after["accuracy"].value,
            verdict=tuned.verdict.value,
            more={
                "learned": counts.learned,
                "stopped by": counts.stopping,
                "judged on": counts.judged,
                "best epoch": state.best_epoch,
                "options shuffled": self.schedule.shuffled,
                "right in another order": tuned.moved,
            },
        )
