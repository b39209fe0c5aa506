"""`dicast calibrate` from its flags to its file, with a tiny random model that is loaded in the process."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import labelled_rows
import pytest
import tiny_models

from dicast.cli.command import CommandError
from dicast_server.calibration import file
from dicast_server.cli import calibrate, evaluate
from dicast_server.cli.reporting import Findings
from dicast_server.evaluation.grpc_source import GrpcSource
from dicast_server.evaluation.source import SourceLost


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_models.llama_folder(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(labelled_rows.write(tmp_path / "rows.jsonl", labelled_rows.rows()))


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DICAST_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DICAST_CACHE", str(tmp_path / "cache"))


def run(data: str, model: str, *more: str) -> int:
    return calibrate.main([data, "--model", model, "--min-option-mass", "0", *more])


def test_a_file_is_written_that_names_the_model_and_the_questions(
    data: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(data, model) == 0
    (path,) = (tmp_path / "data" / "calibrations").iterdir()
    written = file.read(path)
    assert path.stem == written.key.digest
    key = written.key
    assert (key.model, key.readout, key.profile) == ("tiny", "letters", "stock")
    assert (key.settings, key.orders) == ({"style": "plain", "correct_prior": False}, 1)
    assert len(key.weights_hash) == len(key.template_hash) == len(key.questions_sha256) == 64
    assert key.prompt_version
    shown = capsys.readouterr()
    assert "60 of 60 questions" in shown.out
    assert "all questions (60)" in shown.out
    assert "predicates (20)" in shown.out
    assert "no signal: " in shown.out
    assert f"Written to {path}." in shown.out
    # No bar where nobody looks.
    assert shown.err == ""
    # And the log of the process is as it was.
    assert logging.getLogger("dicast_server").level == logging.NOTSET


def test_the_key_has_all_settings(data: str, model: str, tmp_path: Path) -> None:
    out = tmp_path / "fit.json"
    readout = 'candidates:{"scoring": "sequence", "correct_prior": true}'
    assert run(data, model, "--readout", readout, "--orders", "2", "--out", str(out)) == 0
    key = file.read(out).key
    assert key.readout == "candidates"
    assert key.settings == {
        "scoring": "sequence",
        "normalize_length": False,
        "correct_prior": True,
    }
    assert key.orders == 2
    # Nothing is left of what could have been gone on with.
    assert {each.name for each in tmp_path.glob("*.js*")} == {"fit.json", "rows.jsonl"}


def test_an_interrupted_run_goes_on(
    data: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, ask, asked = tmp_path / "fit.json", GrpcSource.ask, list[int]()

    async def interrupted(self: GrpcSource, questions: Any) -> Any:
        asked.append(len(questions))
        if len(asked) > 8:
            raise KeyboardInterrupt
        return await ask(self, questions)

    with monkeypatch.context() as patch:
        patch.setattr(GrpcSource, "ask", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(data, model, "--out", str(out))
    journal = tmp_path / "fit.json.answers.jsonl"
    kept = len(journal.read_text().splitlines()) - 1
    assert 0 < kept < 60
    assert not out.exists()
    capsys.readouterr()
    assert run(data, model, "--out", str(out)) == 0
    assert f"going on with {kept} answers" in capsys.readouterr().err
    assert not journal.exists()
    whole = tmp_path / "whole.json"
    assert run(data, model, "--out", str(whole)) == 0
    assert file.read(out).model_dump(exclude={"date"}) == file.read(whole).model_dump(exclude={"date"})


def test_other_settings_start_anew_and_say_so(
    data: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "fit.json"
    journal = tmp_path / "fit.json.answers.jsonl"
    journal.write_text(json.dumps({"format": "dicast-answers", "version": 1, "system": "another"}) + "\n")
    assert run(data, model, "--out", str(out)) == 0
    assert "answers of another model or other settings: starting anew" in capsys.readouterr().err


def test_a_wrong_file_is_told_with_its_lines(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = labelled_rows.rows()
    rows[1]["expected"] = "legal"
    rows[7]["id"] = rows[3]["id"]
    path = labelled_rows.write(tmp_path / "rows.jsonl", rows)
    path.write_text(path.read_text() + "{\n")
    assert run(str(path), model) == 2
    told = capsys.readouterr().err
    assert 'line 2: expected: "legal" is not among the options "billing", "shipping", "nobody"' in told
    assert "line 8: id: '1a' is that of line 4 too" in told
    assert "line 61: " in told
    assert run(str(tmp_path / "none.jsonl"), model) == 2
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda rows: rows[:48], "48 rows are usable, and a fit takes 50"),
        (lambda rows: [{**row, "expected": True} for row in rows[::3] * 3], "of one class only"),
    ],
)
def test_rows_that_nothing_can_be_fitted_on_are_refused(
    change: Any, why: str, model: str, tmp_path: Path
) -> None:
    rows = [{**row, "id": str(number)} for number, row in enumerate(change(labelled_rows.rows()))]
    path = labelled_rows.write(tmp_path / "rows.jsonl", rows)
    with pytest.raises(CommandError, match=why):
        run(str(path), model)


def test_a_folder_that_cannot_be_written_to_is_told_before_anything_is_asked(
    data: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(self: GrpcSource, questions: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(GrpcSource, "ask", ask)
    with pytest.raises(CommandError, match="there is no such folder"):
        run(data, model, "--out", str(tmp_path / "none" / "fit.json"))
    with pytest.raises(CommandError, match="it is a folder"):
        run(data, model, "--out", str(tmp_path))

    def refused(self: Path, *args: Any, **named: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(self))

    # By hand, because whoever may write anywhere is not locked out by a mode.
    monkeypatch.setattr(Path, "write_text", refused)
    with pytest.raises(CommandError, match=r"fit\.json\.answers\.jsonl cannot be written: Permission denied"):
        run(data, model, "--out", str(tmp_path / "fit.json"))
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.TemporaryFile", lambda dir: refused(Path(dir)))
        with pytest.raises(CommandError, match=r"--report: .* cannot be written to: Permission denied"):
            run(data, model, "--report", str(tmp_path))
    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(CommandError, match="calibrations cannot be made: Permission denied"):
        run(data, model)


def test_the_questions_are_never_written_over(data: str, model: str) -> None:
    before = Path(data).read_text()
    with pytest.raises(CommandError, match="is the file of questions") as caught:
        run(data, model, "--out", data)
    assert caught.value.code == 2
    with pytest.raises(CommandError, match="is the file of questions"):
        evaluate.main([data, "--model", model, "--json", data])
    assert Path(data).read_text() == before


def test_a_model_that_goes_away_leaves_its_answers(
    data: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ask, asked = GrpcSource.ask, list[int]()

    async def lost(self: GrpcSource, questions: Any) -> Any:
        asked.append(len(questions))
        if len(asked) > 8:
            raise SourceLost("no dicast server answers there")
        return await ask(self, questions)

    monkeypatch.setattr(GrpcSource, "ask", lost)
    with pytest.raises(CommandError, match="no dicast server answers there"):
        run(data, model, "--out", str(tmp_path / "fit.json"))
    assert (
        "fit.json.answers.jsonl keeps what was answered, the same command goes on" in capsys.readouterr().err
    )
    assert (tmp_path / "fit.json.answers.jsonl").exists()


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--orders", "0"], "--orders: 0 is not between 1 and 32"),
        (["--readout", "tea"], "'tea' is none of letters, direct, candidates"),
        (["--readout", "letters:{"], "the settings of 'letters'"),
        (["--readout", 'direct:{"style":"plain"}'], "direct has no setting 'style'"),
        (["--server", "here:1"], "not allowed with argument"),
        (["--profile", "none"], "--profile: none cannot be read as a profile"),
    ],
)
def test_wrong_flags_are_told(flags: list[str], why: str, data: str, model: str) -> None:
    with pytest.raises(CommandError, match=why) as caught:
        run(data, model, *flags)
    assert caught.value.code == 2


def test_a_model_that_is_refused_is_no_failure_of_ours(data: str, model: str) -> None:
    with pytest.raises(CommandError, match="the model is not served: ") as caught:
        calibrate.main([data, "--model", model])
    assert caught.value.code == 1
    with pytest.raises(CommandError, match="the model is not served: "):
        run(data, "./there/is/none.gguf")


def test_a_report_is_a_page_about_the_fit(data: str, model: str, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "pages"
    assert run(data, model, "--report", str(folder)) == 0
    page = (folder / "report.html").read_text()
    assert "No signal" in page
    assert "settings <bdi>style plain, correct_prior False</bdi>; orders <bdi>1</bdi>" in page
    assert (folder / "reliability-all.png").stat().st_size > 1000


def test_a_report_that_cannot_be_written_leaves_the_file(data: str, model: str, tmp_path: Path) -> None:
    out = tmp_path / "fit.json"

    def full(folder: Path, findings: Findings) -> None:
        assert findings.fitted is not None
        raise OSError(28, "No space left on device", str(folder / "report.html"))

    argv = [data, "--model", model, "--min-option-mass", "0", "--out", str(out), "--report", str(tmp_path)]
    with pytest.raises(CommandError, match=r"report\.html cannot be written: No space left"):
        calibrate.main(argv, full)
    assert file.read(out).key.model == "tiny"
    with pytest.raises(CommandError, match=r"--report: .* cannot be made"):
        run(data, model, "--report", data)


def test_an_evaluation_has_the_same_figures_as_before_a_fit(
    data: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, figures = tmp_path / "fit.json", tmp_path / "figures.json"
    assert run(data, model, "--out", str(out)) == 0
    argv = [data, "--model", model, "--min-option-mass", "0", "--json", str(figures)]
    assert evaluate.main(argv) == 0
    before = file.read(out).figures[0].before
    evaluated = json.loads(figures.read_text())["parts"][0]["figures"][0]
    assert set(evaluated) == set(before)
    for name, estimate in before.items():
        assert evaluated[name] == pytest.approx(list(estimate), abs=1e-9)
