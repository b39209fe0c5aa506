"""Rebuilds the adapter of the embedded model, from the phrases to the folder that is shipped.

python -m training.adapter --work build/adapter --out server/src/dicast_server/embedded_adapter

Each step leaves a file in the work folder, and a run goes on from those that are there, learning from its
last checkpoint.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from dicast_server.adapters.document import Adapter, Training
from training import passages
from training.adapter import golden
from training.adapter import lessons as lesson_file
from training.adapter.base import WEIGHTS, Base, read
from training.adapter.course import Course
from training.adapter.learning import Pace, Run, measured
from training.adapter.lessons import cut
from training.adapter.network import Network, Shape
from training.adapter.planning import lessons
from training.adapter.writing import Learned, write
from training.case import Case
from training.generate import passage_cases
from training.generate import write as write_rows

HELD_OUT = (
    "bike_rental",
    "code_changes",
    "farm_reports",
    "gym_memberships",
    "marketplace_listings",
    "museum_visitors",
    "music_lessons",
    "podcast_notes",
    "solar_parks",
    "tax_questions",
    "vet_clinic",
    "visitor_access",
    "wedding_planning",
)
"""Fields that nothing is learned from: they show what carries over, and calibrate."""

SEEDS = (1, 2)
"""Of the dealings of the passages, an epoch each."""

HELD_OUT_SEED = 9
HELD_OUT_CASES = 150
"""Passages of the fields held out that are asked about: enough to calibrate on, in minutes."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    given = _parser().parse_args(arguments)
    work: Path = given.work
    work.mkdir(parents=True, exist_ok=True)
    shape, pace = Shape(), Pace(given.tokens)
    rows, plans = _data(work, shape)
    processes = 1 if given.device != "cpu" else given.processes
    network, run = Course(work, plans[:-1], shape, pace, given.device, processes, _say).learned()
    held_out = cut(lesson_file.read(plans[-1]))
    _say(f"fields held out: {measured(network, held_out, pace.forward_tokens)}")
    adapter = _write(given.out, rows, network, shape, run)
    if given.golden is not None:
        model = read(work / WEIGHTS)
        golden.write(given.golden, model, network.learned(), shape, (rows[-1], lesson_file.read(plans[-1])))
    _say(f"{given.out}: {adapter.name} {adapter.hash}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m training.adapter", description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("build/adapter"), help="a folder for all steps")
    parser.add_argument("--out", type=Path, required=True, help="the adapter's folder")
    parser.add_argument("--golden", type=Path, help="a file for some questions with PyTorch's answers")
    parser.add_argument("--tokens", type=int, default=1_400_000, help="to learn from in all")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--processes", type=int, default=2, help="that learn together on a CPU")
    return parser


def _data(work: Path, shape: Shape) -> tuple[list[Path], list[Path]]:
    """Rows and lessons of every seed and of the fields held out, and the model's first layers."""
    learned = [name for name in passages.names() if name not in HELD_OUT]
    parts: list[tuple[str, Iterator[Case]]] = [
        *((f"epoch-{seed}", passage_cases(seed, learned)) for seed in SEEDS),
        ("held-out", passage_cases(HELD_OUT_SEED, HELD_OUT, HELD_OUT_CASES)),
    ]
    rows = [work / f"{name}.jsonl" for name, *_ in parts]
    plans = [work / f"{name}.lessons" for name, *_ in parts]
    weights = work / WEIGHTS
    if not weights.exists() or not all(path.exists() for path in plans):
        base = Base.load()
        planner = base.planner()
        for (_, cases), path, plan in zip(parts, rows, plans, strict=True):
            if not plan.exists():
                _say(f"{plan.name}: {write_rows(path, cases)} questions")
                lesson_file.write(plan, lessons(planner, path))
        base.write(weights, shape.layers)
    return rows, plans


def _write(out: Path, rows: Sequence[Path], network: Network, shape: Shape, run: Run) -> Adapter:
    base = Base.load()
    # Dealings that the run did not come to are none that it learned from.
    learned = rows[:-1][: run.epochs]
    training = Training(
        rows=sum(len(path.read_text("utf-8").splitlines()) for path in learned),
        groups=sum(len(passages.load(name).passages) for name in passages.names() if name not in HELD_OUT),
        epochs=run.epochs,
        steps=run.step,
        seed=shape.seed,
        learning_rate=Pace(0).rate,
        seconds=round(run.seconds, 1),
        more={"tokens": run.tokens, "held_out_fields": list(HELD_OUT)},
    )
    made = Learned(network.low_rank(), network.head.tensors(), shape.layers, shape.scale)
    adapter = write(out, base, made, training, learned)
    shutil.copy(Path(__file__).with_name("MODEL_CARD.md"), out)
    return adapter


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
