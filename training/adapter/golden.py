"""A golden: questions with PyTorch's answers, which the adapter must give too where it is served."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from training.adapter.lessons import Lesson, forwards
from training.adapter.network import Network, Shape

FIELD = "log_probabilities"
"""Of a row, in the order of its options."""

_STATES = 6


def write(
    path: Path,
    model: tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]],
    learned: Mapping[str, torch.Tensor],
    shape: Shape,
    asked: tuple[Path, Sequence[Lesson]],
) -> None:
    """Write some labelled questions with the logarithms of their probabilities, before calibration.

    They are computed in float32, with what was learned rounded to float16, as an adapter's folder has it.

    Args:
        path: of the golden, a file of labelled questions itself.
        model: configuration and weights of its first layers.
        learned: what `Network.learned` gave.
        shape: of the network.
        asked: a file of labelled questions, and the lessons that were made of all its lines.
    """
    network = Network(*model, shape, torch.float32)
    network.load_state_dict(
        {name: value.cpu().half().float() for name, value in learned.items()}, strict=False
    )
    network.eval()
    rows, lessons = asked
    step = len(lessons) // _STATES
    found = []
    with rows.open(encoding="utf-8") as lines:
        for place, lesson in enumerate(lessons):
            said = [json.loads(line) for line in islice(lines, len(lesson.questions))]
            if place % step or place // step >= _STATES:
                continue
            (given,) = forwards([lesson], lesson.size)
            with torch.no_grad():
                read = network(given)
            found += [
                {**row, FIELD: [round(float(log), 5) for log in logs]}
                for row, logs in zip(said, read, strict=True)
            ]
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in found), "utf-8")
