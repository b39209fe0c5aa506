"""The calibration file comes back whole, and what does not fit is refused by name."""

import datetime as dt
import json
import stat
from pathlib import Path
from typing import Any

import drawn
import pytest
from pydantic import TypeAdapter

from dicast_server.calibration import file
from dicast_server.calibration.assessment import assess
from dicast_server.calibration.document import Calibration, Key, calibration_of
from dicast_server.calibration.fit import Fit, fit
from dicast_server.calibration.kinds import KINDS, Kind
from dicast_server.calibration.levels import Scheme
from dicast_server.calibration.rows import ScoredRow
from dicast_server.calibration.verdicts import Verdict

KEY = Key(
    model="tiny",
    revision="abc",
    weights_hash="w",
    quantization="q4",
    template_hash="t",
    readout="letters",
    settings={"style": "plain"},
    orders=2,
    profile="stock",
    prompt_version="letters-1",
    questions_sha256="s",
)
DATE = dt.datetime(2026, 5, 4, 3, 2, 1, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def fitted() -> Fit:
    by: dict[Kind, float] = {"predicate": 2.0, "choice": 4.0, "score": 1.0}
    return fit(drawn.rows(1000, 2, sharpened=by, bias=2.0))


@pytest.fixture(scope="module")
def calibration(fitted: Fit) -> Calibration:
    return calibration_of(fitted, assess(fitted, draws=20), KEY, DATE, "0.1.0", notes=("3 rows left out",))


@pytest.fixture
def path(tmp_path: Path, calibration: Calibration) -> Path:
    path = tmp_path / f"{KEY.digest}.json"
    file.write(calibration, path)
    return path


def changed(path: Path, change: dict[str, Any]) -> Path:
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    return path


def test_a_file_comes_back_whole(path: Path, calibration: Calibration, fitted: Fit) -> None:
    found = file.read(path, KEY)
    assert found == calibration
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert found.applies
    assert (found.scheme, found.date) == (Scheme.KIND, DATE)
    for kind in KINDS:
        for options in (2, 5, 255):
            assert found.of(kind, options) == fitted.table.of(kind, options)
    assert found.notes[-1] == "3 rows left out"


def test_a_file_says_how_the_fit_held(calibration: Calibration) -> None:
    assert calibration.verdict("predicate") is Verdict.CALIBRATED
    whole, *by_kind = calibration.figures
    assert (whole.kind, whole.rows, whole.verdict) == (None, 1000, None)
    assert [each.kind for each in by_kind] == list(KINDS)
    after = whole.after["log_loss"].value
    assert after < min(whole.before["log_loss"].value, whole.prior_log_loss)
    found = calibration.threshold(0.2, "predicate")
    assert found is not None
    assert found.threshold is not None
    assert calibration.threshold(0.01, "score", "top") is not None
    assert calibration.threshold(0.3) is None
    assert {each.wanted for each in calibration.sets} == {0.01, 0.02, 0.05, 0.1, 0.2}


def test_a_fit_that_was_not_kept_says_what_is_served() -> None:
    found = fit(drawn.rows(400, 1))
    kept = calibration_of(found, assess(found, draws=20, wanted=(0.1,)), KEY, DATE, "0.1.0")
    assert not kept.applies
    assert kept.of("choice", 3) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model": "other"}, 'model is "tiny" in the file and "other" here'),
        ({"weights_hash": "x"}, "weights_hash"),
        ({"revision": "x"}, "revision"),
        ({"quantization": ""}, 'quantization is "q4" in the file and "" here'),
        ({"template_hash": "x"}, "template_hash"),
        ({"readout": "direct"}, "readout"),
        ({"settings": {"style": "bracket"}}, "settings"),
        ({"orders": 1}, "orders"),
        ({"profile": "openjev"}, "profile"),
        ({"constants": (0.85, 1.0, 0.0)}, "constants"),
        ({"prompt_version": "letters-2"}, "prompt_version"),
        ({"questions_sha256": "x"}, "questions_sha256"),
    ],
)
def test_a_file_for_something_else_is_refused_by_name(path: Path, change: dict[str, Any], says: str) -> None:
    served = KEY.model_copy(update=change)
    with pytest.raises(file.OtherSystem, match="was made for something else") as caught:
        file.read(path, served)
    (difference,) = caught.value.differences
    assert says in difference
    assert served.digest != KEY.digest


def test_a_server_without_questions_takes_what_was_fitted_for_it(path: Path) -> None:
    found = file.read(path, KEY.model_copy(update={"questions_sha256": ""}))
    assert found == file.read(path)


def test_a_file_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(file.MissingFile, match=r"none\.json cannot be read: No such file"):
        file.read(tmp_path / "none.json")
    with pytest.raises(file.MissingFile, match="Is a directory"):
        file.read(tmp_path)


def test_a_file_that_is_cut_off_anywhere_is_corrupt(path: Path) -> None:
    data = path.read_bytes()
    for length in (0, 1, len(data) // 3, len(data) - 3):
        path.write_bytes(data[:length])
        with pytest.raises(file.CorruptFile):
            file.read(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[1]", "is no calibration file of dicast"),
        ("{}", "is no calibration file of dicast"),
        ("\udcff".encode("utf-8", "surrogateescape"), "cut off or no calibration"),
        ("[" * 100_000, "cut off or no calibration"),
        ('{"format": "dicast-calibration", "version": 1}', "key: Field required"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: str | bytes, says: str) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(file.CorruptFile, match=says):
        file.read(path)


def entry(**change: Any) -> dict[str, Any]:
    return {"kind": None, "band": None, "temperature": 2.0, "offset": 0.0, "rows": 9, **change}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"table": [entry(temperature=0.0)]}, "table.0.temperature"),
        ({"table": [entry(temperature=21.0)]}, "table.0.temperature"),
        ({"table": [entry(temperature=float("nan"))]}, "table.0.temperature"),
        ({"table": [entry(offset=float("inf"))]}, "table.0.offset"),
        ({"table": [entry(kind="noul")]}, "table.0.kind"),
        ({"table": [entry(kind="choice", band=[3, 5])]}, "a band of 3 to 5 options"),
        ({"base": -1}, "base"),
        ({"scheme": "per_planet"}, "scheme"),
        ({"surprise": 1}, "surprise"),
        ({"version": 0}, "version"),
        ({"version": "1"}, "version"),
    ],
)
def test_values_out_of_range_are_refused(path: Path, change: dict[str, Any], says: str) -> None:
    with pytest.raises(file.CorruptFile, match=says):
        file.read(changed(path, change))


def test_a_file_from_a_newer_version_is_refused(path: Path) -> None:
    with pytest.raises(file.NewerFile, match="has version 2, and this dicast reads 1"):
        file.read(changed(path, {"version": 2, "surprise": 1}))


def test_a_folder_that_cannot_be_written_to_leaves_nothing(
    tmp_path: Path, calibration: Calibration, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(file.CalibrationFileError, match="cannot be written: No such file"):
        file.write(calibration, tmp_path / "none" / "a.json")
    (tmp_path / "a.json").mkdir()
    with pytest.raises(file.CalibrationFileError, match="cannot be written"):
        file.write(calibration, tmp_path / "a.json")
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]

    def refuse(self: Path, *args: Any, **more: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    # As root, who runs some tests, no folder is read-only.
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(file.CalibrationFileError, match="cannot be written: Permission denied"):
        file.write(calibration, tmp_path / "b.json")


def test_a_failed_write_leaves_the_old_file(
    path: Path, calibration: Calibration, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(file.CalibrationFileError, match="No space left"):
        file.write(calibration.model_copy(update={"dicast_version": "9"}), path)
    assert path.read_bytes() == before
    assert len(list(path.parent.iterdir())) == 1
    assert stat.S_IMODE(path.stat().st_mode) & 0o400


def test_scored_rows_survive_json() -> None:
    """So that a run can be resumed: floats come back to the bit."""
    rows = drawn.rows(20, 1)
    adapter = TypeAdapter(list[ScoredRow])
    assert adapter.validate_json(adapter.dump_json(rows)) == rows
