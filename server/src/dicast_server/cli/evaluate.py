"""`dicast eval`: how good a system's probabilities are, alone or beside another's; for people and for CI."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from dicast.cli.command import CommandError, Parser
from dicast_server import caches
from dicast_server.calibration.dataset import Dataset, DatasetError
from dicast_server.calibration.fit import MIN_ROWS
from dicast_server.cli import asking, figures, measuring, reporting
from dicast_server.cli.asking import Calling, Loading, Where
from dicast_server.cli.reporting import Findings, ReportWriter, Side
from dicast_server.evaluation.comparison import Evaluation, System, evaluate
from dicast_server.evaluation.grpc_source import GrpcSource
from dicast_server.evaluation.journal import Journal, JournalError
from dicast_server.evaluation.source import SourceLost
from dicast_server.evaluation.system import Asking, digest_of

OK, MISSED, USAGE, NOT_MEASURED = 0, 1, 2, 3


class _NotMeasured(Exception):
    """There are no figures; the message says why."""


def main(argv: list[str], write_report: ReportWriter = reporting.write) -> int:
    """Evaluate; returns 0, 1 where a threshold is missed, 2 for wrong usage, 3 where nothing was measured."""
    arguments = _parser().parse_args(argv)
    how = _How(asking.asking(arguments), asking.loading(arguments))
    call = asking.calling(arguments)
    places = [(asking.where(arguments), call)]
    if arguments.against is not None:
        # One system's key is no business of the other.
        places.append((asking.elsewhere(arguments.against), replace(call, api_key=arguments.against_key)))
    try:
        dataset = measuring.read(arguments.data)
    except DatasetError as error:
        print(f"dicast eval: {error}", file=sys.stderr)
        return USAGE
    measuring.check_apart(arguments.data, "--json", arguments.json)
    _check_writable(arguments.json)
    reporting.make_folder(arguments.report, NOT_MEASURED)
    try:
        asked = asyncio.run(_ask_each(places, how, arguments, dataset))
        evaluation = evaluate([system for system, _ in asked])
    except (SourceLost, JournalError, _NotMeasured, ValueError) as error:
        print(f"dicast eval: {error}", file=sys.stderr)
        return NOT_MEASURED
    print("\n".join(_lines(evaluation, arguments.data, len(dataset.questions))))
    missed = _missed(evaluation, arguments)
    try:
        if arguments.json is not None:
            figures_of = evaluation.as_json(dataset)
            text = json.dumps({**figures_of, "missed": missed}, indent=1)
            arguments.json.write_text(text + "\n", "utf-8")
        if arguments.report is not None:
            sides = [Side(system.name, system.key, system.predictions) for system in evaluation.systems]
            write_report(arguments.report, Findings(arguments.data, dataset, sides))
    except OSError as error:
        print(f"dicast eval: {error.filename} cannot be written: {error.strerror}", file=sys.stderr)
        return NOT_MEASURED
    for _, journal in asked:
        if journal is not None:
            journal.remove()
    for sentence in missed:
        print(f"dicast eval: {sentence}", file=sys.stderr)
    return MISSED if missed else OK


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "eval",
        "Measure how good a system's probabilities are on labelled questions.",
        epilog="exit code: 0; 1 where --min-accuracy or --max-ece is missed; 2 for a mistake in the command\n"
        "line or the file; 3 where nothing could be measured",
    )
    parser.add_argument(
        "data", metavar="DATA", help="a .jsonl or .csv file of labelled questions; built-in: dicast's own"
    )
    asking.add_flags(parser, urls=True)
    parser.add_argument(
        "--against",
        metavar="URL|HOST:PORT[/MODEL]",
        help="a second system, to be compared question by question",
    )
    parser.add_argument(
        "--against-key",
        default=os.environ.get("DICAST_AGAINST_KEY") or None,
        metavar="KEY",
        help="key of the second system (environment: DICAST_AGAINST_KEY)",
    )
    parser.add_argument("--min-accuracy", type=_share, metavar="X", help="exit with 1 below this accuracy")
    parser.add_argument("--max-ece", type=_share, metavar="Y", help="exit with 1 above this ECE, equal width")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="write a page with diagrams too")
    return parser


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 1")
    return value


@dataclass(frozen=True, slots=True)
class _How:
    """All that the flags say of how systems are asked."""

    asking: Asking
    loading: Loading


async def _ask_each(
    places: list[tuple[Where, Calling]], how: _How, arguments: argparse.Namespace, dataset: Dataset
) -> list[tuple[System, Journal | None]]:
    # One after the other: two models at once would halve each other's speed.
    return [
        await _ask(_place(number, at, arguments, dataset), at, how, call, dataset)
        for number, (at, call) in enumerate(places, start=1)
    ]


async def _ask(
    path: Path, at: Where, how: _How, call: Calling, dataset: Dataset
) -> tuple[System, Journal | None]:
    async with asking.opened(at, how.asking, how.loading, call) as source:
        journal = _journal(path, source.digest)
        with journal or contextlib.nullcontext():
            answered = await measuring.measure("eval", source, dataset.questions, journal, call.wait_s)
        key = source.key if isinstance(source, GrpcSource) else None
    predictions = answered.predictions()
    print("\n".join(figures.left_out_lines(answered.left_out)), end="\n" if answered.left_out else "")
    if len(predictions) < MIN_ROWS:
        raise _NotMeasured(
            f"{source.name} answered {len(predictions)} questions, and figures take {MIN_ROWS} at least"
        )
    return System(source.name, predictions, answered.left_out, key), journal


def _place(number: int, at: Where, arguments: argparse.Namespace, dataset: Dataset) -> Path:
    """Where answers are kept until they are judged: beside the output, or in the cache folder without one."""
    if arguments.json is not None:
        beside: Path = arguments.json
        return beside.with_name(f"{beside.name}.{number}.answers.jsonl")
    name = digest_of([dataset.sha256, at.kind, at.address])[:16]
    return caches.location() / "answers" / f"{name}.jsonl"


def _check_writable(out: Path | None) -> None:
    """Raises CommandError where a file cannot be written: before minutes of asking."""
    if out is None:
        return
    there = out.exists()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        # Adds nothing to what is there.
        out.open("a").close()
        if not there:
            out.unlink()
    except OSError as error:
        raise CommandError(f"--json: {out} cannot be written: {error.strerror}", NOT_MEASURED) from error


def _journal(path: Path, digest: str) -> Journal | None:
    """A run without a file to write needs no folder to be stopped in: it begins anew then."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return Journal(path, digest)
    except (OSError, JournalError) as error:
        print(f"dicast eval: answers are not kept, so a stopped run begins anew: {error}", file=sys.stderr)
        return None


def _lines(evaluation: Evaluation, data: str, asked: int) -> list[str]:
    first = f"{evaluation.rows} of {asked} questions of {data}; 95 % intervals in brackets."
    return [first, *figures.evaluation_lines(evaluation)]


def _missed(evaluation: Evaluation, arguments: argparse.Namespace) -> list[str]:
    """The thresholds that the first system misses, a sentence each."""
    overall = evaluation.parts[0].figures[0]
    accuracy, ece = overall["accuracy"].value, overall["ece"].value
    found = []
    if arguments.min_accuracy is not None and accuracy < arguments.min_accuracy:
        found.append(f"accuracy {accuracy:.4f} is below --min-accuracy {arguments.min_accuracy:g}")
    if arguments.max_ece is not None and ece > arguments.max_ece:
        found.append(f"ECE {ece:.4f} is above --max-ece {arguments.max_ece:g}")
    return found
