"""`dicast calibrate`: asks a model labelled questions, fits temperatures, and writes a calibration file."""

from __future__ import annotations

import asyncio
import datetime as dt
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from dicast.cli.command import CommandError, Parser
from dicast_server import calibrations
from dicast_server.calibration import file
from dicast_server.calibration.assessment import Assessment, assess
from dicast_server.calibration.blocks import Constants
from dicast_server.calibration.dataset import DatasetError
from dicast_server.calibration.document import Calibration, Key, calibration_of
from dicast_server.calibration.file import CalibrationFileError
from dicast_server.calibration.fit import Fit, FitRefused, fit
from dicast_server.calibration.rows import LeftOut, ScoredRow
from dicast_server.cli import asking, figures, measuring, reporting
from dicast_server.cli.reporting import Findings, ReportWriter, Side
from dicast_server.evaluation.journal import Journal, JournalError
from dicast_server.evaluation.source import SourceLost


@dataclass(frozen=True, slots=True)
class _Scored:
    """The rows of a run, what they are of, and where the calibration goes."""

    system: str
    key: Key
    rows: Sequence[ScoredRow]
    left_out: Sequence[LeftOut]
    journal: Journal
    out: Path


def main(argv: list[str], write_report: ReportWriter = reporting.write) -> int:
    """Calibrate; returns 0, 1 for a failure, 2 for wrong usage or a wrong file of questions."""
    parser = Parser("calibrate", "Fit what turns a model's scores into probabilities that hold.")
    parser.add_argument(
        "data",
        nargs="?",
        default=measuring.BUILT_IN,
        metavar="DATA",
        help="a .jsonl or .csv file of labelled questions (default: the set that comes with dicast)",
    )
    asking.add_flags(parser, urls=False)
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="where to write (default: in dicast's data folder)"
    )
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="write a page with diagrams too")
    arguments = parser.parse_args(argv)
    how, load = asking.asking(arguments), asking.loading(arguments)
    try:
        dataset = measuring.read(arguments.data)
    except DatasetError as error:
        print(f"dicast calibrate: {error}", file=sys.stderr)
        return 2
    measuring.check_apart(arguments.data, "--out", arguments.out)
    reporting.make_folder(arguments.report)

    async def score() -> _Scored:
        call = asking.calling(arguments)
        async with asking.served(asking.where(arguments), how, load, call) as source:
            key = source.key.model_copy(update={"questions_sha256": dataset.sha256})
            out = _place(arguments.out, key)
            with Journal(out.with_name(f"{out.name}.answers.jsonl"), source.digest) as journal:
                answered = await measuring.measure(
                    "calibrate", source, dataset.questions, journal, call.wait_s
                )
            rows, left_out = answered.scored()
            return _Scored(source.name, key, rows, left_out, journal, out)

    try:
        scored = asyncio.run(score())
        print("\n".join(figures.left_out_lines(scored.left_out)), end="\n" if scored.left_out else "")
        found = fit(scored.rows, Constants(*scored.key.constants))
        assessment = assess(found)
        calibration = _calibration(found, assessment, scored)
        file.write(calibration, scored.out)
    except (SourceLost, JournalError, FitRefused, CalibrationFileError) as error:
        raise CommandError(str(error)) from error
    print(f"{scored.system}: {len(scored.rows)} of {len(dataset.questions)} questions of {arguments.data}")
    print("\n".join(figures.calibration_lines(calibration)))
    print(f"\nWritten to {scored.out}.")
    scored.journal.remove()
    if arguments.report is not None:
        side = Side(scored.system, scored.key, found.after)
        notes = _notes(scored)
        try:
            write_report(
                arguments.report, Findings(arguments.data, dataset, [side], (found, assessment), notes)
            )
        except OSError as error:
            raise CommandError(f"--report: {error.filename} cannot be written: {error.strerror}") from error
        print(f"Report: {arguments.report / reporting.PAGE}.")
    if not scored.key.weights_hash:
        print(
            "The server does not tell the hash of its weights, so the file fits no model: "
            "calibrate with --model for one that is served."
        )
    return 0


def _place(out: Path | None, key: Key) -> Path:
    """Where the file goes; found to be impossible before minutes of asking."""
    if out is None:
        out = calibrations.path_of(key)
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(f"{out.parent} cannot be made: {error.strerror}") from error
    if not out.absolute().parent.is_dir():
        raise CommandError(f"{out} cannot be written: there is no such folder")
    if out.is_dir():
        raise CommandError(f"{out} cannot be written: it is a folder")
    return out


def _calibration(found: Fit, assessment: Assessment, scored: _Scored) -> Calibration:
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    return calibration_of(found, assessment, scored.key, now, version("dicast-server"), notes=_notes(scored))


def _notes(scored: _Scored) -> list[str]:
    return [figures.rows_left_out(len(scored.left_out))] if scored.left_out else []
