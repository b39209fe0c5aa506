"""The files of a report: valid pictures, the same bytes each time, and data at the edges."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import asked
import drawn
import matplotlib
import numpy as np
import pytest
from PIL import Image

from dicast_server.calibration.assessment import assess
from dicast_server.calibration.fit import fit
from dicast_server.calibration.kinds import Kind
from dicast_server.calibration.metrics import worst
from dicast_server.calibration.prediction import Prediction
from dicast_server.report.build import report_of_answers, report_of_fit, report_of_two
from dicast_server.report.contents import Facts, Report, System
from dicast_server.report.write import write_report

FACTS = Facts("d", "00", 1, datetime(2025, 3, 4, tzinfo=UTC), "0.1.0", (System("m", "letters"),))
KINDS: list[tuple[Kind, int]] = [("predicate", 2), ("choice", 4)]


def said(kind: Kind, labels: Sequence[int], *probabilities: float) -> list[Prediction]:
    return [
        Prediction(f"r{index}", f"g{index}", kind, label, probabilities) for index, label in enumerate(labels)
    ]


def evaluated(rows: Sequence[Prediction]) -> Report:
    questions = [asked.question(row.id, row.kind, len(row.probabilities)) for row in rows]
    return report_of_answers(rows, questions, FACTS, draws=5)


def test_a_report_of_a_fit(tmp_path: Path) -> None:
    rows = drawn.rows(300, 5, kinds=KINDS, sharpened=2.5)
    found = fit(rows)
    questions = [asked.question(row.id, row.kind, row.options, row.label) for row in rows]
    report = report_of_fit(found, assess(found, draws=5), questions, FACTS, draws=5)
    files = write_report(tmp_path / "new" / "folder", report)
    parts = ["all", "predicate", "choice"]
    pictures = [f"{figure}-{part}.png" for part in parts for figure in ("reliability", "coverage")]
    assert [file.name for file in files] == ["report.html", "misses.json", *pictures]
    assert sorted(file.name for file in files) == sorted(os.listdir(tmp_path / "new" / "folder"))
    for file in files[2:]:
        with Image.open(file) as picture:
            picture.verify()
            assert picture.format == "PNG"
            assert 1000 < picture.width < 1600 and 400 < picture.height < 1000
        assert 5_000 < file.stat().st_size < 80_000
    assert files[0].stat().st_size < 2_000_000


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    rows = drawn.rows(100, 5, kinds=KINDS[:1], sharpened=2.5)
    written = []
    # Neither the order of the rows nor a user's own settings of matplotlib change anything.
    for place, ordered in enumerate((rows, rows[::-1])):
        found = fit(ordered)
        questions = [asked.question(row.id, row.kind, row.options, row.label) for row in ordered]
        report = report_of_fit(found, assess(found, draws=5), questions, FACTS, draws=5)
        with matplotlib.rc_context({"font.size": 20.0, "axes.facecolor": "red"} if place else {}):
            before = matplotlib.rcParams["font.size"]
            files = write_report(tmp_path / str(place), report)
            assert matplotlib.rcParams["font.size"] == before
        written.append([file.read_bytes() for file in files])
    assert written[0] == written[1]


def test_who_writes_no_report_does_not_wait_for_matplotlib() -> None:
    check = "import sys, dicast_server.report.write; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False, timeout=60).returncode == 0


def test_two_systems(tmp_path: Path) -> None:
    rows = drawn.predictions(120, np.random.default_rng(3))
    other = [replace(row, probabilities=row.probabilities[::-1]) for row in rows]
    questions = [asked.question(row.id, "choice", 4) for row in rows]
    facts = replace(FACTS, systems=(System("模型 $x_1$", "letters"), System("b", "letters")))
    files = write_report(tmp_path, report_of_two(rows, other, questions, facts, draws=5))
    assert [file.name for file in files] == [
        "report.html",
        "misses.json",
        "reliability-choice.png",
        "coverage-choice.png",
    ]
    misses = json.loads(files[1].read_text())
    assert list(misses) == ["A", "B"]
    assert [each["id"] for each in misses["B"]] == [row.id for row in worst(other)]


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(said("predicate", [0, 1] * 40, 0.5, 0.5), id="one value"),
        pytest.param(said("predicate", [0] * 60, 1.0, 0.0), id="all right and sure"),
        pytest.param(said("predicate", [1] * 60, 1.0, 0.0), id="all wrong and sure"),
        pytest.param(said("choice", [2], 0.2, 0.3, 0.5), id="one row, right"),
        pytest.param(said("score", [0], 0.2, 0.3, 0.5), id="one row, wrong"),
        pytest.param(said("choice", [0, 1, 2] * 4, 0.2, 0.3, 0.5), id="one bin"),
    ],
)
def test_edges(tmp_path: Path, rows: list[Prediction]) -> None:
    report = evaluated(rows)
    assert len(report.parts) == 1 and report.parts[0].kind == rows[0].kind
    page, misses, *pictures = write_report(tmp_path, report)
    assert "nan" not in page.read_text("utf-8").split("<main>")[1].replace("data:image", "").lower().split()
    for file in pictures:
        Image.open(io.BytesIO(file.read_bytes())).verify()
    wrong = sum(not row.right for row in rows)
    assert report.misses[0].wrong == wrong
    assert len(json.loads(misses.read_text())["answers"]) == min(wrong, 20)
    assert ("No answer is wrong." in page.read_text("utf-8")) == (wrong == 0)


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    blocked = tmp_path / "report"
    blocked.write_text("a file")
    with pytest.raises(OSError):
        write_report(blocked, evaluated(said("choice", [2], 0.2, 0.3, 0.5)))
    # A folder stands where the page is to be: nothing half is left.
    (tmp_path / "report.html").mkdir()
    with pytest.raises(OSError):
        write_report(tmp_path, evaluated(said("choice", [2], 0.2, 0.3, 0.5)))
    assert sorted(os.listdir(tmp_path)) == ["report", "report.html"]
