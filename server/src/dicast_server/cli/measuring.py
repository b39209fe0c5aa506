"""Asking a source a whole data set: with a progress bar, and so that it can be stopped and gone on with."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tqdm import tqdm

from dicast.cli.command import CommandError
from dicast_server.calibration import built_in
from dicast_server.calibration.dataset import Dataset, read_dataset
from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.evaluation.journal import Journal
from dicast_server.evaluation.run import Answered, ask_all
from dicast_server.evaluation.source import Source, SourceLost

BUILT_IN = "built-in"


def read(data: str) -> Dataset:
    """A data set by its file or as BUILT_IN. Raises DatasetError."""
    return built_in.read() if data == BUILT_IN else read_dataset(Path(data))


def check_apart(data: str, flag: str, out: Path | None) -> None:
    """Raises CommandError where a flag names the file of questions as the one to write to."""
    if out is not None and data != BUILT_IN and out.exists() and out.samefile(data):
        raise CommandError(f"{flag}: {out} is the file of questions", 2)


async def measure(
    command: str,
    source: Source,
    questions: tuple[LabelledQuestion, ...],
    journal: Journal | None,
    patience_s: float,
) -> Answered:
    """Ask; on a terminal with a bar that says how much time is left. A busy source has `patience_s` seconds.

    Raises:
        SourceLost: the source went away.
        JournalError: an answer could not be kept.
    """
    if journal is not None:
        if journal.stale:
            _say(command, f"{journal.path} has answers of another model or other settings: starting anew")
        elif journal.kept:
            _say(command, f"going on with {journal.kept} answers of {journal.path}")
    with tqdm(total=len(questions), unit=" questions", file=sys.stderr, disable=None) as bar:
        try:
            return await ask_all(source, questions, journal, bar.update, patience_s)
        except (asyncio.CancelledError, SourceLost):
            if journal is not None:
                bar.close()
                _say(command, f"stopped; {journal.path} keeps what was answered, the same command goes on")
            raise


def _say(command: str, sentence: str) -> None:
    print(f"dicast {command}: {sentence}", file=sys.stderr)
