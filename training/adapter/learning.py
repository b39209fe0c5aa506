"""Learning: steps of AdamW over lessons, with a checkpoint that a run goes on from."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from training.adapter.lessons import Forward, Lesson, forwards
from training.adapter.network import Network

_LOOKED_AT = 200
_REPORTED = 1500


@dataclass(frozen=True, slots=True)
class Pace:
    """How long and how fast.

    Attributes:
        tokens: that are learned from in all, padding not counted.
        step_tokens: of a step.
        forward_tokens: of a forward, padding included.
        rate: of low-rank weights, the highest.
        head_rate: of the head.
        head_decay: of the head's weights.
        warm_steps: before the rate is at its highest; it falls as a cosine to a thirtieth.
        seed: of the order of lessons and of what is drawn at the start.
        save_every_s: seconds between two checkpoints.
    """

    tokens: int
    step_tokens: int = 4000
    forward_tokens: int = 1300
    rate: float = 1e-3
    head_rate: float = 1e-3
    head_decay: float = 0.05
    warm_steps: int = 30
    seed: int = 0
    save_every_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Peers:
    """Processes that learn together: each reads its share of a step, and all make the same step."""

    rank: int = 0
    count: int = 1

    def share(self, given: Iterable[Forward]) -> list[Forward]:
        """This process's forwards."""
        return list(given)[self.rank :: self.count]

    def add_up(self, parameters: Sequence[Any]) -> None:
        """Make each gradient the sum of all processes'."""
        if self.count == 1:
            return
        every = torch.cat(
            [
                (value.grad if value.grad is not None else torch.zeros_like(value)).ravel()
                for value in parameters
            ]
        )
        torch.distributed.all_reduce(every)
        for value, grad in zip(parameters, every.split([value.numel() for value in parameters]), strict=True):
            value.grad = grad.view_as(value).clone()


@dataclass(slots=True)
class Run:
    """How far a run has come."""

    step: int = 0
    epochs: int = 0
    tokens: int = 0
    seconds: float = 0.0


def learn(
    network: Network,
    epochs: Sequence[Sequence[Lesson]],
    pace: Pace,
    *,
    checkpoint: Path,
    report: Callable[[str], None],
    peers: Peers = Peers(),
) -> Run:
    """Learn from epochs in turn until so many tokens are learned from; go on where `checkpoint` was left."""
    torch.manual_seed(pace.seed)
    low_rank = [value for value in network.body.parameters() if value.requires_grad]
    head = list(network.head.parameters())
    optimizer = torch.optim.AdamW(
        [
            {"params": low_rank, "lr": pace.rate, "weight_decay": 0.0},
            {"params": head, "lr": pace.head_rate, "weight_decay": pace.head_decay},
        ],
        betas=(0.9, 0.98),
    )
    rates = [group["lr"] for group in optimizer.param_groups]
    run = _resumed(network, optimizer, pace, checkpoint)
    if run.step == 0:
        network.eval()
        network.look(list(forwards(epochs[0][:_LOOKED_AT], pace.forward_tokens)))
    network.train()
    seen: list[tuple[str, float, bool]] = []
    learning = [*low_rank, *head]
    began, saved = time.monotonic() - run.seconds, time.monotonic()
    for step, (epoch, lessons) in enumerate(_steps(epochs, pace)):
        if run.tokens >= pace.tokens:
            break
        if step < run.step:
            continue
        share = min(1.0, (step + 1) / pace.warm_steps) * (
            1 / 30 + (1 - 1 / 30) * 0.5 * (1 + math.cos(math.pi * min(1.0, run.tokens / pace.tokens)))
        )
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * share
        questions = sum(len(lesson.questions) for lesson in lessons)
        for given in peers.share(forwards(lessons, pace.forward_tokens)):
            seen += _learn(network, given, questions)
        peers.add_up(learning)
        torch.nn.utils.clip_grad_norm_(learning, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        run.step, run.epochs, run.seconds = step + 1, epoch, time.monotonic() - began
        run.tokens += sum(lesson.size for lesson in lessons)
        if run.step % 20 == 0:
            seen = seen[-_REPORTED:]
            report(f"{run.tokens / pace.tokens:.0%}, {run.seconds:.0f} s, {_told(seen)}")
        if peers.rank == 0 and time.monotonic() - saved > pace.save_every_s:
            _save(network, optimizer, pace, run, checkpoint)
            saved = time.monotonic()
    if peers.rank == 0:
        _save(network, optimizer, pace, run, checkpoint)
    network.eval()
    return run


def measured(network: Network, lessons: Sequence[Lesson], forward_tokens: int) -> str:
    """How a network does on lessons that it has not learned from, in words."""
    network.eval()
    found: list[tuple[str, float, bool]] = []
    for given in forwards(lessons, forward_tokens):
        with torch.no_grad():
            read = network(given)
        found += [
            _outcome(question.kind, question.right, logs)
            for question, logs in zip(given.questions, read, strict=True)
        ]
    return _told(found)


def _learn(network: Network, given: Forward, questions: int) -> list[tuple[str, float, bool]]:
    """Add a forward's part to the gradients of a step's mean loss."""
    read = network(given)
    losses = [-logs[question.right] for question, logs in zip(given.questions, read, strict=True)]
    (torch.stack(losses).sum() / questions).backward()
    return [
        _outcome(question.kind, question.right, logs.detach())
        for question, logs in zip(given.questions, read, strict=True)
    ]


def _outcome(kind: str, right: int, logs: torch.Tensor) -> tuple[str, float, bool]:
    """The kind, the log loss as a share of chance's, and whether the right option was first."""
    return kind, -float(logs[right]) / math.log(max(2, len(logs))), int(logs.argmax()) == right


def _told(found: Sequence[tuple[str, float, bool]]) -> str:
    by_kind: dict[str, list[tuple[float, bool]]] = {}
    for kind, loss, is_right in found:
        by_kind.setdefault(kind, []).append((loss, is_right))
    return ", ".join(
        f"{kind}: loss {np.mean([loss for loss, _ in rows]):.3f} of chance's, "
        f"{np.mean([is_right for _, is_right in rows]):.0%} right"
        for kind, rows in sorted(by_kind.items())
    )


def _steps(epochs: Sequence[Sequence[Lesson]], pace: Pace) -> Iterator[tuple[int, list[Lesson]]]:
    """Lessons of one step after the other, for ever, with the number of the epoch; the same in every run."""
    rng = random.Random(pace.seed)
    together: list[Lesson] = []
    size = 0
    turn = 0
    while True:
        lessons = list(epochs[turn % len(epochs)])
        turn += 1
        rng.shuffle(lessons)
        for lesson in lessons:
            together.append(lesson)
            size += lesson.size
            if size >= pace.step_tokens:
                yield turn, together
                together, size = [], 0


def _save(network: Network, optimizer: Any, pace: Pace, run: Run, path: Path) -> None:
    temporary = path.with_name(f"{path.name}.tmp")
    torch.save(
        {
            "pace": asdict(pace),
            "run": asdict(run),
            "network": network.learned(),
            "optimizer": optimizer.state_dict(),
            "random": torch.get_rng_state(),
        },
        temporary,
    )
    temporary.rename(path)


def _resumed(network: Network, optimizer: Any, pace: Pace, path: Path) -> Run:
    """Take up a checkpoint of the same pace; else begin."""
    if not path.exists():
        return Run()
    found = torch.load(path, weights_only=True)
    if found["pace"] != asdict(pace):
        raise SystemExit(f"{path} was learned at another pace: delete it, or say the same again")
    network.load_state_dict(found["network"], strict=False)
    optimizer.load_state_dict(found["optimizer"])
    torch.set_rng_state(found["random"])
    return Run(**found["run"])
