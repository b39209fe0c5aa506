"""A training on disk: written now and then, so that one that is stopped goes on where it was."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dicast_server.engine.cpu_layers import Array
from dicast_server.tuning.adam import Adam
from dicast_server.tuning.training import Epoch, State

_PARTS = ("weights", "means", "squares", "best")
_FORMAT = 1
"""Changes with what a file holds: one of another format is not gone on with."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The file of one training; `digest` names everything that decides what comes out of it."""

    path: Path
    digest: str

    def save(self, state: State) -> None:
        """Write a state; the last one stays until the new one is whole.

        Raises:
            OSError: the file cannot be written.
        """
        said = {
            "format": _FORMAT,
            "digest": self.digest,
            "epochs": [asdict(epoch) for epoch in state.epochs],
            "best_loss": state.best_loss,
            "best_epoch": state.best_epoch,
            "step": state.step,
            "sum": state.sum_,
            "examples": state.examples,
        }
        arrays: dict[str, Any] = {"said": np.frombuffer(json.dumps(said).encode(), np.uint8)}
        for part, held in zip(_PARTS, _held(state), strict=True):
            arrays.update({f"{part}/{name}": each for name, each in held.items()})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("wb") as file:
                np.savez(file, **arrays)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
        finally:
            temporary.unlink(missing_ok=True)

    def load(self) -> State | None:
        """The state that was saved; None where there is none, or one of something else or cut off."""
        try:
            # Opened here: NumPy leaves a file open that it cannot read.
            with self.path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            said = json.loads(arrays.pop("said").tobytes())
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None
        if not isinstance(said, dict) or (said.get("format"), said.get("digest")) != (_FORMAT, self.digest):
            return None
        weights, means, squares, best = (_part(arrays, part) for part in _PARTS)
        return State(
            weights,
            Adam(means, squares, said["step"]),
            best,
            [Epoch(**each) for each in said["epochs"]],
            said["best_loss"],
            said["best_epoch"],
            said["step"],
            said["sum"],
            said["examples"],
        )

    def remove(self) -> None:
        """Take the file away, once nothing is left to go on with."""
        self.path.unlink(missing_ok=True)


def _held(state: State) -> tuple[Mapping[str, Array], ...]:
    return state.weights, state.adam.means, state.adam.squares, state.best


def _part(arrays: Mapping[str, Array], part: str) -> dict[str, Array]:
    return {
        name.removeprefix(f"{part}/"): each for name, each in arrays.items() if name.startswith(f"{part}/")
    }
