"""The report behind --report: what was measured, as a page in a folder."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from dicast.cli.command import CommandError
from dicast_server.calibration.assessment import Assessment
from dicast_server.calibration.dataset import Dataset
from dicast_server.calibration.document import Key
from dicast_server.calibration.fit import Fit
from dicast_server.calibration.prediction import Prediction

if TYPE_CHECKING:
    from dicast_server.report.contents import Facts, System


@dataclass(frozen=True, slots=True)
class Side:
    """A system with its predictions; `key` is None where no more than a URL is known."""

    system: str
    key: Key | None
    predictions: Sequence[Prediction]


@dataclass(frozen=True, slots=True)
class Findings:
    """All that was measured of one system, or of two on the same questions; with a fit, of one."""

    data: str
    dataset: Dataset
    sides: Sequence[Side]
    fitted: tuple[Fit, Assessment] | None = None
    notes: Sequence[str] = ()


PAGE = "report.html"

ReportWriter = Callable[[Path, Findings], None]


def make_folder(folder: Path | None, code: int = 1) -> None:
    """Make the folder of a report, before minutes of asking; `code` is the exit code where that fails.

    Raises:
        CommandError: it cannot be made or written to.
    """
    if folder is None:
        return
    failed = "made"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        failed = "written to"
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise CommandError(f"--report: {folder} cannot be {failed}: {error.strerror}", code) from error


def write(folder: Path, findings: Findings) -> None:
    """Write the page and its pictures. Raises OSError where the folder cannot be written to."""
    # Drawing takes a second to import, which a run without a report has no need of.
    from dicast_server.report import build
    from dicast_server.report.write import write_report

    questions, facts, sides = findings.dataset.questions, _facts(findings), findings.sides
    if findings.fitted is not None:
        report = build.report_of_fit(*findings.fitted, questions, facts, notes=findings.notes)
    elif len(sides) == 1:
        report = build.report_of_answers(sides[0].predictions, questions, facts, notes=findings.notes)
    else:
        first, second = (side.predictions for side in sides)
        report = build.report_of_two(first, second, questions, facts, notes=findings.notes)
    write_report(folder, report)


def _facts(findings: Findings) -> Facts:
    from dicast_server.report.contents import Facts

    rows = len(findings.sides[0].predictions)
    return Facts(
        dataset=findings.data,
        sha256=findings.dataset.sha256,
        rows=rows,
        date=dt.datetime.now(dt.UTC),
        dicast_version=version("dicast-server"),
        systems=tuple(_system(side) for side in findings.sides),
        left_out=len(findings.dataset.questions) - rows,
    )


def _system(side: Side) -> System:
    from dicast_server.report.contents import System

    if (key := side.key) is None:
        return System(side.system, "not told")
    details = [
        ("settings", ", ".join(f"{name} {value}" for name, value in key.settings.items())),
        ("orders", str(key.orders)),
        ("profile", key.profile),
        ("prompt version", key.prompt_version),
        ("quantization", key.quantization),
        ("weights", key.weights_hash[:12]),
    ]
    return System(key.model, key.readout, tuple((name, value) for name, value in details if value))
