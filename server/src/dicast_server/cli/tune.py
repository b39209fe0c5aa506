"""`dicast tune`: learns an adapter from labelled questions, and says what it is worth."""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from dicast.cli.command import CommandError
from dicast_server import blas
from dicast_server.adapters import file
from dicast_server.adapters.document import is_name
from dicast_server.adapters.errors import AdapterFileError
from dicast_server.calibration.dataset import Dataset, DatasetError, read_dataset
from dicast_server.cli import figures, reporting
from dicast_server.cli.profiles import read_profile
from dicast_server.cli.reporting import Findings, ReportWriter, Side
from dicast_server.cli.tuning_flags import parser
from dicast_server.tuning.checks import NotLearnable, check
from dicast_server.tuning.parts import Parts, part
from dicast_server.tuning.settings import LowRank, Schedule
from dicast_server.tuning.verdicts import Verdict

if TYPE_CHECKING:
    from dicast_server.evaluation.comparison import Evaluation
    from dicast_server.profiling.profile_file import ProfileFile
    from dicast_server.readouts.profile import Profile
    from dicast_server.tuning.checkpoint import Checkpoint
    from dicast_server.tuning.training import State
    from dicast_server.tuning.tuner import Counts
    from dicast_server.tuning.workshop import Tuned, Workshop

NO_BETTER, USAGE, STOPPED = 1, 2, 130
KEEP_S = 60.0
"""How often what was learned is written to disk."""

_VERDICTS = {
    Verdict.BETTER: "Better: the adapter's log loss is lower, and chance alone does not explain it.",
    Verdict.NO_BETTER: "No better: the difference in log loss may be chance. More rows would tell, or help.",
    Verdict.FLATTER: "Only flatter: the log loss is lower, and fewer answers are right. `dicast calibrate` "
    "does that for less.",
    Verdict.WORSE: "Worse: the adapter's log loss is higher than the model's own.",
}


def main(argv: list[str], write_report: ReportWriter = reporting.write) -> int:
    """Tune; returns 0, 1 where nothing better came of it, 2 for wrong usage or a wrong file of questions."""
    arguments = parser().parse_args(argv)
    name = _name_of(arguments.data) if arguments.name is None else arguments.name
    if not is_name(name):
        if arguments.name is None:
            raise CommandError(
                f"{arguments.data} makes no name for the adapter: give it one by --name", USAGE
            )
        raise CommandError(
            f"--name: {name!r} is no name: it has small letters, digits, '.', '_' and '-', and begins with a "
            "letter or digit",
            USAGE,
        )
    try:
        profile = read_profile(arguments.profile)
    except ValueError as error:
        raise CommandError(f"--profile: {error}", USAGE) from None
    try:
        dataset = read_dataset(arguments.data)
        checked = check(dataset.questions)
        parts = part(checked.questions)
    except (DatasetError, NotLearnable) as error:
        print(f"dicast tune: {error}", file=sys.stderr)
        return USAGE
    if checked.repeated:
        _say(f"{checked.repeated} rows say what others say too, and are learned once")
    reporting.make_folder(arguments.report)
    library = blas.ensure()
    if library.warning:
        print(library.warning, file=sys.stderr)
    return _tune(_Task(arguments, name, dataset, parts, profile), write_report)


@dataclass(frozen=True, slots=True)
class _Task:
    """What is to be tuned, found to be possible as far as that can be told without the model."""

    arguments: argparse.Namespace
    name: str
    dataset: Dataset
    parts: Parts
    profile: Profile | ProfileFile | None


def _tune(task: _Task, write_report: ReportWriter) -> int:
    """Learn, judge, write."""
    # Only now: it imports MLX, which takes its matrix products from what is loaded by then.
    from dicast_server.engine.learning.learner import CannotLearn
    from dicast_server.models import ModelRefused
    from dicast_server.service.registry import PluginError
    from dicast_server.tuning.lessons import CannotBeRead
    from dicast_server.tuning.training import Diverged, Stopped
    from dicast_server.tuning.workshop import Workshop

    arguments, name, dataset = task.arguments, task.name, task.dataset
    try:
        workshop = Workshop.open(
            arguments.model,
            task.parts,
            profile=task.profile,
            threads=arguments.threads,
            low_rank=LowRank(arguments.layers, arguments.rank),
            schedule=Schedule(
                arguments.learning_rate,
                arguments.epochs,
                seed=arguments.seed,
                shuffled=arguments.shuffle_options,
            ),
        )
        out = arguments.out or workshop.place(name)
        _check_place(out)
        if left_out := workshop.tuner.left_out:
            print("\n".join(figures.left_out_lines(left_out)))
        state = _train(workshop, dataset)
        tuned = workshop.finish(state, f"{workshop.model}:{name}")
        written = tuned.verdict is Verdict.BETTER or arguments.even_if_no_better
        if written:
            workshop.write(out, name, dataset.sha256, tuned)
    except (CannotLearn, CannotBeRead, ModelRefused, PluginError, Diverged) as error:
        raise CommandError(f"{arguments.model} cannot be tuned so: {error}") from error
    except NotLearnable as error:
        raise CommandError(str(error)) from error
    except AdapterFileError as error:
        raise CommandError(f"{error}; what was learned is kept, the same command goes on") from error
    except (Stopped, KeyboardInterrupt):
        # The latter before the first step, or while what was learned is judged.
        _say("stopped; what was learned is kept, the same command goes on")
        return STOPPED
    if arguments.report is not None:
        _report(arguments.report, write_report, str(arguments.data), dataset, tuned.evaluation)
    workshop.checkpoint(dataset.sha256).remove()
    print("\n".join(_lines(tuned, workshop.tuner.counts, arguments.data)))
    print(f"Written to {out}." if written else "Nothing was written.")
    return 0 if tuned.verdict is Verdict.BETTER else NO_BETTER


def _name_of(data: Path) -> str:
    """The name of a file as an adapter's."""
    return re.sub(r"[^a-z0-9._-]+", "-", data.stem.lower()).strip("-._")[:63]


def _check_place(out: Path) -> None:
    """Find what can be told of the folder before half an hour of learning."""
    if not is_name(out.absolute().name):
        raise CommandError(f"--out: {out.name!r} is no name of an adapter, which is the folder's", USAGE)
    if out.exists() and not (out.is_dir() and ((out / file.DOCUMENT).is_file() or not any(out.iterdir()))):
        raise CommandError(f"--out: {out} holds something else than an adapter", USAGE)
    try:
        file.check_writable(out)
    except AdapterFileError as error:
        raise CommandError(f"--out: {error}", USAGE) from error
    if (out / file.DOCUMENT).is_file():
        _say(f"{out} holds an adapter: a new one takes its place, and its calibration's, if it is better")


def _train(workshop: Workshop, dataset: Dataset) -> State:
    """Learn, with a bar on a terminal and a line an epoch; goes on with what was stopped."""
    from dicast_server.tuning.training import State, Stopped

    checkpoint = workshop.checkpoint(dataset.sha256)
    loaded = checkpoint.load()
    state = loaded or State.of(workshop.start)
    if loaded is None and checkpoint.path.exists():
        _say(f"{checkpoint.path} cannot be read: what it kept is lost, and all is learned anew")
    if state.step:
        _say(f"going on behind step {state.step}, which {checkpoint.path} keeps")
    tokens = workshop.tuner.tokens
    last, told = [time.monotonic()], [len(state.epochs)]

    def keep(state: State) -> None:
        if len(state.epochs) > told[0]:
            told[0] = len(state.epochs)
            tqdm.write(_epoch(state, len(tokens)), file=sys.stderr)
        if time.monotonic() - last[0] > KEEP_S:
            _save(checkpoint, state)
            last[0] = time.monotonic()

    with (
        _interrupted() as stop,
        tqdm(total=sum(tokens), unit=" tokens", unit_scale=True, file=sys.stderr, disable=None) as bar,
    ):
        try:
            workshop.tuner.train(state, lambda learned: _advance(bar, learned), keep, stop)
        except Stopped:
            if not _save(checkpoint, state):
                raise CommandError("stopped, and what was learned is lost", STOPPED) from None
            raise
        except BaseException:
            _save(checkpoint, state)
            raise
    _save(checkpoint, state)
    return state


def _save(checkpoint: Checkpoint, state: State) -> bool:
    """Keep a state where that is possible: a full disk must not end what can still be learned and judged."""
    try:
        checkpoint.save(state)
    except OSError as error:
        _say(f"{checkpoint.path} cannot be written, so that nothing is kept: {error.strerror or error}")
        return False
    return True


@contextmanager
def _interrupted() -> Iterator[Callable[[], bool]]:
    """Says whether Ctrl-C was pressed or SIGTERM came: the step that runs is finished first."""
    asked: list[int] = []

    def ask(number: int, frame: Any) -> None:
        asked.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _epoch(state: State, of: int) -> str:
    """A line about the epoch that has ended."""
    done, ended = len(state.epochs), state.epochs[-1]
    best = ", the best so far" if state.best_epoch == done else ""
    return (
        f"epoch {done} of {of}: loss {ended.learned:.3f}; on rows held out log loss {ended.held_out:.3f} and "
        f"{ended.accuracy:.0%} right{best}"
    )


def _advance(bar: Any, tokens: int) -> None:
    bar.update(tokens)


def _lines(tuned: Tuned, counts: Counts, data: Path) -> list[str]:
    """What a person wants to know: base and tuned beside each other, and a verdict."""
    evaluation, state = tuned.evaluation, tuned.state
    lines = [
        f"{counts.learned} questions of {data} were learned in {len(state.epochs)} epochs, "
        f"{counts.stopping} said when to stop (behind epoch {state.best_epoch}), and {evaluation.rows} "
        "were held out from both. On these, with 95 % intervals in brackets:",
        *figures.evaluation_lines(evaluation),
    ]
    if tuned.moved is not None:
        lines += ["", f"With their options in another order {tuned.moved:.0%} of the choices are right by B."]
    nothing = "No better: behind no epoch was the model better on the rows that say when to stop."
    return [*lines, "", _VERDICTS[tuned.verdict] if state.best_epoch else nothing]


def _report(
    folder: Path, write_report: ReportWriter, data: str, dataset: Dataset, evaluation: Evaluation
) -> None:
    sides = [Side(system.name, system.key, system.predictions) for system in evaluation.systems]
    try:
        write_report(folder, Findings(data, dataset, sides))
    except OSError as error:
        raise CommandError(f"--report: {error.filename} cannot be written: {error.strerror}") from error
    print(f"Report: {folder / reporting.PAGE}.")


def _say(sentence: str) -> None:
    print(f"dicast tune: {sentence}", file=sys.stderr)
