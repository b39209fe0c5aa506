"""What `dicast tune` says before work is lost, and of work that is: places, disks and files kept."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from dicast.cli.command import CommandError
from dicast_server import caches
from dicast_server.cli import tune
from dicast_server.tuning import checkpoint, training, tuner

pytestmark = pytest.mark.usefixtures("folders")


def run(data: Path, model: str, *more: str) -> int:
    settings = ["--learning-rate", "0.005", "--layers", "2", "--epochs", "8"]
    return tune.main([str(data), "--model", model, *settings, *more])


def test_a_file_whose_name_makes_none(tmp_path: Path, model: str) -> None:
    with pytest.raises(CommandError, match="makes no name for the adapter"):
        run(tmp_path / "___.jsonl", model)


def test_a_place_that_cannot_be_written_is_found_before_learning(data: Path, model: str) -> None:
    # Whoever runs the tests, nobody may write there.
    with pytest.raises(CommandError, match=r"--out: .* cannot be written") as caught:
        run(data, model, "--out", "/proc/adapter")
    assert caught.value.code == 2


def test_what_was_kept_and_cannot_be_read_is_told(
    data: Path, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tuner.Tuner, "judge", stopped)
        assert run(data, model, "--epochs", "1") == 130
    assert "the same command goes on" in capsys.readouterr().err
    (kept,) = (caches.location() / "tuning").iterdir()
    kept.write_bytes(kept.read_bytes()[:5000])
    run(data, model, "--epochs", "1")
    assert "cannot be read: what it kept is lost, and all is learned anew" in capsys.readouterr().err


def test_a_full_disk_does_not_end_the_learning(
    data: Path, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.Checkpoint, "save", full)
    monkeypatch.setattr(tune, "KEEP_S", 0.0)
    assert run(data, model) == 0
    assert "cannot be written, so that nothing is kept: No space left" in capsys.readouterr().err
    monkeypatch.setattr(training.Training, "_step", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(CommandError, match="what was learned is lost") as caught:
        run(data, model)
    assert caught.value.code == 130


def test_that_no_epoch_was_better_is_told(
    data: Path, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(training.Training, "_step", lambda self, batch, state, total: None)
    assert run(data, model, "--epochs", "1") == 1
    assert "behind no epoch was the model better" in capsys.readouterr().out
