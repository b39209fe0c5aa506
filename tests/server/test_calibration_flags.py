"""The flags of `dicast serve` for temperatures: what they do, and how their mistakes are said."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from made_calibrations import calibration
from tiny_server import predicate, request

from dicast.v1 import decision_pb2 as pb
from dicast.v1.decision_service_pb2_grpc import DecisionServiceStub
from dicast_server import calibrations
from dicast_server.calibration import file
from dicast_server.cli import serve

PROGRAM = Path(__file__).parents[1] / "tiny_serve.py"
PATIENCE_S = 30


@contextmanager
def started(*flags: str) -> Iterator["tuple[subprocess.Popen[str], grpc.Channel]"]:
    command = [sys.executable, str(PROGRAM), "--grpc-port", "0", "--min-option-mass", "0", *flags]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            with grpc.insecure_channel(process.stdout.readline().split()[1]) as channel:
                yield process, channel
        finally:
            process.kill()


def source(*flags: str) -> tuple[str, float]:
    """Where a process's temperature comes from, and the temperature."""
    with started(*flags) as (_, channel):
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)
        assert any(reply.status == health_pb2.HealthCheckResponse.SERVING for reply in watch)
        asked = request(predicate(), detail=pb.DETAIL_LEVEL_BASIC)
        (answer,) = DecisionServiceStub(channel).Decide(asked, timeout=PATIENCE_S).answers
    diagnostics = answer.diagnostics
    return pb.TemperatureSource.Name(diagnostics.temperature_source), diagnostics.temperature


def test_a_process_applies_what_its_flags_name_and_else_what_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DICAST_DATA", str(tmp_path))
    named = tmp_path / "named.json"
    file.write(calibration(temperatures={"predicate": 4.0}), named)
    calibrations.save(calibration(), calibrations.folder())
    assert source() == ("TEMPERATURE_SOURCE_FITTED", 2.5)
    assert source("--calibration", str(named)) == ("TEMPERATURE_SOURCE_FITTED", 4.0)
    assert source("--calibration", "none") == ("TEMPERATURE_SOURCE_DEFAULT", 1.0)
    assert source("--temperature", "0.8") == ("TEMPERATURE_SOURCE_SERVER", 0.8)


def test_a_signal_in_the_middle_of_a_fit_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DICAST_DATA", str(tmp_path))
    rows = [
        {"state": f"~ {index}", "question": {"type": "noul", "instructions": "?"}, "expected": index % 2 == 0}
        for index in range(60)
    ]
    data = tmp_path / "labelled.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)))
    with started("--calibrate", str(data)) as (process, _):
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate("go\n" * 100, timeout=PATIENCE_S)
    assert (process.returncode, "Traceback" in log) == (0, False)
    assert not calibrations.folder().exists()


def test_a_file_that_cannot_be_used_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = calibrations.save(calibration(), tmp_path)
    text = path.read_text()
    for content, said in (
        (text[: len(text) // 2], "cut off"),
        (json.dumps({**json.loads(text), "version": 99}), "version 99"),
        ("{}", "no calibration file"),
    ):
        path.write_text(content)
        assert serve.main(["--calibration", str(path)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("dicast serve: --calibration: ")
        assert said in line
    assert serve.main(["--calibration", str(tmp_path / "missing.json")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_flags_that_contradict_each_other_are_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = calibrations.save(calibration(), tmp_path)
    assert serve.main(["--calibration", str(path), "--calibrate", "x.jsonl"]) == 2
    assert "does not go with --calibrate" in capsys.readouterr().err
    for wrong in ("0", "0.04", "21", "nan", "warm"):
        assert serve.main(["--temperature", wrong]) == 2
        assert "temperature" in capsys.readouterr().err
