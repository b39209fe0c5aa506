"""Writes a report into a folder: its diagrams as PNG files, and the page."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from dicast_server.report.canvas import DARK, LIGHT
from dicast_server.report.contents import Part, Report
from dicast_server.report.curve import coverage_png
from dicast_server.report.diagrams import reliability_png
from dicast_server.report.page import Picture, Pictures, page

PAGE = "report.html"
MISSES = "misses.json"


def write_report(folder: Path, report: Report) -> list[Path]:
    """Write `report.html`, `misses.json`, and `reliability-PART.png` and `coverage-PART.png` of each part.

    The folder is made where it is missing. The page holds its pictures itself, so that it can be sent
    alone. The same report gives the same bytes. Returns the files, the page first.

    Raises:
        OSError: the folder cannot be made or written to; what was there is whole, old or new.
    """
    drawn = {_name(part): _pictures(part, report.labels) for part in report.parts}
    misses = {each.label: list(each.rows) for each in report.misses}
    files = {
        PAGE: page(report, list(drawn.values())).encode(),
        MISSES: (json.dumps(misses, indent=1, ensure_ascii=False) + "\n").encode(),
    }
    for name, pictures in drawn.items():
        files[f"reliability-{name}.png"] = pictures.reliability.light
        files[f"coverage-{name}.png"] = pictures.coverage.light
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        _replace(folder / name, content)
    return [folder / name for name in files]


def _name(part: Part) -> str:
    return part.kind or "all"


def _pictures(part: Part, labels: tuple[str, ...]) -> Pictures:
    return Pictures(
        Picture(reliability_png(part, labels, LIGHT), reliability_png(part, labels, DARK)),
        Picture(coverage_png(part, labels, LIGHT), coverage_png(part, labels, DARK)),
    )


def _replace(path: Path, content: bytes) -> None:
    # Beside the file, because a rename is atomic within a file system alone.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
