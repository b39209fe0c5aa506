"""A course of learning: one process, or several that learn together."""

from __future__ import annotations

import datetime as dt
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from training.adapter import lessons
from training.adapter.base import WEIGHTS, read
from training.adapter.learning import Pace, Peers, Run, learn
from training.adapter.network import Network, Shape

_PATIENCE = dt.timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Course:
    """What is learned, and how.

    Attributes:
        work: the folder with the model's layers, and where the checkpoint is.
        plans: files of lessons, an epoch each.
        shape: of the network.
        pace: of the learning.
        device: cpu or cuda.
        processes: that learn together. On a CPU those of one thread each wait for each other once a step,
            threads of one process in every product.
        report: hears how it goes.
    """

    work: Path
    plans: Sequence[Path]
    shape: Shape
    pace: Pace
    device: str
    processes: int
    report: Callable[[str], None]

    def learned(self) -> tuple[Network, Run]:
        """Learn, or go on from the checkpoint."""
        port = _free_port()
        spawn = torch.multiprocessing.get_context("spawn")
        silent = replace(self, report=_ignore)
        others = [
            spawn.Process(target=_follow, args=(silent, rank, port), daemon=True)
            for rank in range(1, self.processes)
        ]
        for other in others:
            other.start()
        found = self._learn(0, port)
        for other in others:
            other.join()
        return found

    def _learn(self, rank: int, port: int) -> tuple[Network, Run]:
        if self.processes > 1:
            torch.set_num_threads(1)
            torch.distributed.init_process_group(
                "gloo",
                init_method=f"tcp://127.0.0.1:{port}",
                rank=rank,
                world_size=self.processes,
                timeout=_PATIENCE,
            )
        epochs = [lessons.cut(lessons.read(path)) for path in self.plans]
        network = Network(*read(self.work / WEIGHTS), self.shape).to(self.device)
        run = learn(
            network,
            epochs,
            self.pace,
            checkpoint=self.work / "checkpoint.pt",
            report=self.report,
            peers=Peers(rank, self.processes),
        )
        return network, run


def _follow(course: Course, rank: int, port: int) -> None:
    course._learn(rank, port)


def _ignore(text: str) -> None:
    pass


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
