"""`dicast up`: children come up in order, go down in reverse order, and never outlive it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from client import children
from dicast.cli import main
from dicast.cli.pair import start
from dicast.cli.processes import ChildFailed, Command, Group
from dicast.cli.up import run


@contextmanager
def up(log: Path, *, stubborn: bool = False) -> Iterator[subprocess.Popen[str]]:
    """`dicast up` in a process of its own, which prints where it listens."""
    command = children.program(children.up, str(log), stubborn)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains_the_gateway_then_the_engine(tmp_path: Path, number: signal.Signals) -> None:
    log = tmp_path / "log"
    with up(log) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("grpc 127.0.0.1:")
        assert process.stdout.readline().startswith("http 127.0.0.1:")
        process.send_signal(number)
        rest, logged = process.communicate(timeout=30)
    assert (process.returncode, rest) == (0, "")
    assert lines(log) == ["engine in a session of its own: True", "gateway stopped", "engine stopped"]
    assert "this line is for people" in logged and "Traceback" not in logged


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")
def test_the_children_end_when_it_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with up(log) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.readline()
        process.kill()
        process.stderr.read()  # the children hold its stderr: the end of it is theirs
    assert sorted(lines(log))[1:] == ["engine stopped", "gateway stopped"]


def test_a_second_signal_kills(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with up(log, stubborn=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.readline()
        process.terminate()
        while "gateway stays" not in process.stderr.readline():
            pass
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 0
    assert "gateway stopped" not in lines(log)


def test_a_signal_that_nobody_waited_for_is_no_second_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Group() as group:
        start(group, children.pair(log), patience_s=30)
        signal.raise_signal(signal.SIGTERM)
    assert lines(log)[1:] == ["gateway stopped", "engine stopped"]


def test_a_child_that_does_not_end_is_killed_in_time(tmp_path: Path) -> None:
    with Group(grace_s=0.2) as group:
        group.start(
            Command("gateway", children.program(children.gateway, str(tmp_path / "log"), "", True, 0), "http")
        )
        group.address("gateway", 30)
    assert not (tmp_path / "log").exists()


def test_a_dying_child_ends_both(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(ChildFailed) as caught:
        run(children.pair(log, engine_code=3), patience_s=30)
    assert str(caught.value) == "the engine ended by itself, with exit code 3; its log says why"
    assert caught.value.code == 1


def test_a_child_that_dies_later_ends_the_others(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Group() as group:
        start(group, children.pair(log), patience_s=30)
        group.start(Command("helper", (sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"), "x"))
        with pytest.raises(ChildFailed, match=r"^the helper ended by itself, by SIGKILL; its log says why$"):
            group.wait()
    assert lines(log)[1:] == ["gateway stopped", "engine stopped"]


def test_a_refused_model_is_one_sentence(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(ChildFailed, match=r"^the model fake-1 is not served: the option mass is 0\.01$"):
        run(children.pair(log, status="REFUSED"), patience_s=30)
    assert lines(log)[1:] == ["gateway stopped", "engine stopped"]


def test_patience_ends(tmp_path: Path) -> None:
    silent = Command("engine", (sys.executable, "-c", "import time; time.sleep(60)"), "grpc")
    with Group() as group:
        group.start(silent)
        with pytest.raises(ChildFailed, match=r"^the engine did not listen within 0\.2 s$"):
            group.address("engine", 0.2)
    # Both must listen within it, on a busy machine too.
    with pytest.raises(ChildFailed, match=r"^the model was not ready within 12 s$"):
        run(children.pair(tmp_path / "log", status="STARTING"), patience_s=12)


def test_it_leaves_the_signals_as_they_were() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Group():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    "arguments",
    [
        ["--grpc-port", "x"],
        ["--http-port", "70000"],
        ["--grpc-port", "8080", "--http-port", "8080"],
        ["--patience", "0"],
        ["extra"],
    ],
)
def test_usage_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", *arguments]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith("dicast up: ")
