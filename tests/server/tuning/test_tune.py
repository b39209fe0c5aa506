"""`dicast tune` from its flags to an adapter's folder, with a tiny random model."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import labelled_rows
import pytest
from labelled_rows import Row

from dicast.cli.command import CommandError
from dicast_server.adapters import file, places
from dicast_server.cli import tune
from dicast_server.cli.reporting import Findings
from dicast_server.evaluation.comparison import System, evaluate
from dicast_server.tuning import training
from dicast_server.tuning.verdicts import Verdict, verdict

pytestmark = pytest.mark.usefixtures("folders")


def run(data: Path, model: str, *more: str) -> int:
    settings = ["--learning-rate", "0.005", "--layers", "2", "--epochs", "8"]
    return tune.main([str(data), "--model", model, *settings, *more])


def test_an_adapter_is_learned_where_a_server_finds_it(
    data: Path, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(data, model) == 0
    folder = places.folder("tiny") / "front-doors"
    adapter = file.read(folder)
    assert (adapter.name, adapter.base.model, adapter.rank) == ("front-doors", "tiny", 16)
    assert adapter.tuned_for.readout == "letters"
    record = adapter.training
    assert (record.rows, record.groups, record.verdict) == (120, 120, "better")
    assert record.loss_after is not None and record.loss_before is not None
    assert record.loss_after < record.loss_before
    shown = capsys.readouterr()
    assert "90 questions of" in shown.out
    assert "tiny:front-doors" in shown.out
    assert "Better: " in shown.out
    assert [line.split(":")[0] for line in shown.err.splitlines()][:2] == ["epoch 1 of 8", "epoch 2 of 8"]
    assert "the best so far" in shown.err
    assert f"Written to {folder}." in shown.out
    # Nothing is left to go on with.
    assert not list((tmp_path / "cache" / "tuning").iterdir())


def test_the_same_seed_gives_the_same_weights(data: Path, model: str, tmp_path: Path) -> None:
    short = ("--epochs", "1", "--even-if-no-better")
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        run(data, model, *short, "--seed", seed, "--out", str(tmp_path / name))
    one, again, other = (file.read(tmp_path / name).weights_sha256 for name in "abc")
    assert one == again != other


def test_what_is_stopped_goes_on(
    data: Path,
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    short = ("--epochs", "2", "--even-if-no-better")
    run(data, model, *short, "--out", str(tmp_path / "whole"))
    steps = 0
    step = training.Training._step

    def interrupted(self: Any, batch: Any, state: Any, total: int) -> None:
        nonlocal steps
        steps += 1
        if steps == 7:
            os.kill(os.getpid(), signal.SIGINT)
        step(self, batch, state, total)

    monkeypatch.setattr(training.Training, "_step", interrupted)
    out = tmp_path / "stopped"
    assert run(data, model, *short, "--out", str(out)) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert not out.exists()
    run(data, model, *short, "--out", str(out))
    assert "going on behind step 7" in capsys.readouterr().err
    assert file.read(out).weights_sha256 == file.read(tmp_path / "whole").weights_sha256
    # Another seed is another tuning.
    assert steps == 90


def test_an_adapter_that_is_no_better_is_not_written(
    tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(1)
    rows = [{**row, "expected": rng.random() < 0.5} for row in labelled_rows.doors()]
    data = labelled_rows.write(tmp_path / "coins.jsonl", rows)
    assert run(data, model, "--epochs", "1", "--learning-rate", "1e-6") == 1
    shown = capsys.readouterr().out
    assert "Nothing was written." in shown
    assert "Better:" not in shown
    assert not any(places.folder("tiny").iterdir())


def test_a_better_one_stays_where_a_new_one_cannot_be_written(
    data: Path, model: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out = tmp_path / "adapter"
    short = ("--epochs", "1", "--even-if-no-better", "--out", str(out))
    run(data, model, *short)
    before = file.read(out)

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(file, "_sync", full)
        with pytest.raises(CommandError, match="No space left on device; what was learned is kept"):
            run(data, model, *short, "--seed", "5")
    assert file.read(out) == before
    # It is not learned again.
    monkeypatch.setattr(training.Training, "_step", full)
    run(data, model, *short, "--seed", "5")
    assert file.read(out) != before


def test_a_page_is_written(data: Path, model: str, tmp_path: Path) -> None:
    found: list[Findings] = []
    code = tune.main(
        [str(data), "--model", model, "--epochs", "1", "--layers", "1", "--report", str(tmp_path / "page")],
        lambda folder, findings: found.append(findings),
    )
    assert code in {0, 1}
    assert [side.system for side in found[0].sides] == ["tiny", "tiny:front-doors"]
    assert len(found[0].sides[0].predictions) == 18


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "has no rows"),
        (labelled_rows.doors(40), "too few: 50 are the least"),
        (
            [*labelled_rows.doors(), {**labelled_rows.doors()[1], "id": "x", "expected": False}],
            "line 121 contradicts line 2",
        ),
        ([{**row, "expected": True} for row in labelled_rows.doors()], "the same answer, true"),
        ([{**row, "expected": "perhaps"} for row in labelled_rows.doors(60)], "line 1: expected"),
    ],
)
def test_rows_that_cannot_be_learned_from(
    rows: list[Row], told: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(labelled_rows.write(tmp_path / "rows.jsonl", rows), model) == 2
    assert told in capsys.readouterr().err


def test_states_longer_than_the_context_are_left_out_or_refused(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = [{**row, "state": f"{row['state']} {'x' * 600}"} for row in labelled_rows.doors()]
    mixed = labelled_rows.write(tmp_path / "mixed.jsonl", [*long[:20], *labelled_rows.doors()[20:]])
    assert run(mixed, model, "--epochs", "1") in {0, 1}
    assert "20 rows were left out" in capsys.readouterr().out
    all_ = labelled_rows.write(tmp_path / "long.jsonl", long)
    with pytest.raises(CommandError, match="0 of the questions can be read, and 50 are the least"):
        run(all_, model)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--name", "No Name"], "is no name"),
        (["--name", ""], "is no name"),
        (["--epochs", "0"], "no whole number"),
        (["--rank", "1025"], "more than 1024"),
        (["--seed", "-1"], "no whole number from 0"),
        (["--learning-rate", "nan"], "no number above 0"),
        (["--profile", "nothing"], "--profile"),
    ],
)
def test_wrong_flags(more: list[str], told: str, data: Path, model: str) -> None:
    with pytest.raises(CommandError, match=told) as caught:
        run(data, model, *more)
    assert caught.value.code == 2


def test_a_folder_that_no_server_could_name_is_refused(data: Path, model: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="'My Adapter' is no name of an adapter"):
        run(data, model, "--out", str(tmp_path / "My Adapter"))


def test_an_adapter_that_would_be_replaced_is_named(
    data: Path, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "adapter"
    short = ("--epochs", "1", "--even-if-no-better", "--out", str(out))
    run(data, model, *short)
    assert "takes its place" not in capsys.readouterr().err
    run(data, model, *short)
    assert f"{out} holds an adapter: a new one takes its place" in capsys.readouterr().err


def test_a_folder_of_something_else_is_not_overwritten(data: Path, model: str, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "photo.jpg").touch()
    with pytest.raises(CommandError, match="holds something else"):
        run(data, model, "--out", str(tmp_path / "mine"))


def test_a_rate_that_is_too_high_is_told(data: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*args: Any) -> Any:
        raise FloatingPointError("a gradient is not finite")

    monkeypatch.setattr(training, "clipped", nothing)
    with pytest.raises(CommandError, match="step 1: a gradient is not finite"):
        run(data, model)


def test_verdicts_need_more_than_a_flatter_answer() -> None:
    from dicast_server.calibration.prediction import Prediction

    def system(name: str, of_right: float, wrong: int) -> System:
        rows = [
            Prediction(
                str(place),
                str(place),
                "predicate",
                0,
                (of_right, 1 - of_right)
                if place >= wrong
                else (0.02, 0.98)
                if of_right > 0.9
                else (0.4, 0.6),
            )
            for place in range(100)
        ]
        return System(name, rows, ())

    base = system("base", 0.99, 40)
    assert verdict(evaluate([base, system("flatter", 0.6, 45)])) is Verdict.FLATTER
    assert verdict(evaluate([base, system("better", 0.6, 30)])) is Verdict.BETTER
    assert verdict(evaluate([base, base])) is Verdict.NO_BETTER
    assert verdict(evaluate([base, system("worse", 0.99, 60)])) is Verdict.WORSE
