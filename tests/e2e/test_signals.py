"""Signals and faults at the start of `dicast serve`, in processes of their own."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE_S = 30


def serve(*flags: str, **environment: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "dicast.cli", "serve", *flags]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin", **environment},
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_the_model_loads_ends_at_once(number: signal.Signals, smollm2_path: Path) -> None:
    with serve("--grpc-port", "0", DICAST_CACHE=str(smollm2_path.parents[1])) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("grpc 127.0.0.1:")
        process.send_signal(number)
        _, log = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "Traceback" not in log


def test_a_signal_while_the_model_is_fetched_ends_at_once(tmp_path: Path) -> None:
    # An index that accepts a connection and never answers.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        index = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        environment = {"PIP_INDEX_URL": index, "PIP_CONFIG_FILE": "/dev/null", "HOME": str(tmp_path)}
        with serve("--grpc-port", "0", DICAST_CACHE=str(tmp_path), **environment) as process:
            connection, _ = silent.accept()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
            connection.close()


def test_a_taken_port_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with serve("--grpc-port", str(port)) as process:
            _, log = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert f"dicast serve: cannot listen on 127.0.0.1:{port}" in log
    assert "--grpc-port" in log
    assert "add_port" not in log


@pytest.mark.parametrize(
    "flags",
    [
        ["--grpc-port", "x"],
        ["--nope"],
        ["--model", "/no/such/file.gguf"],
        ["x"],
        ["--costs", "no.json"],
        ["--api-keys", "none"],
    ],
)
def test_a_usage_error_is_one_sentence(flags: list[str]) -> None:
    with serve(*flags) as process:
        _, log = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert log.startswith("dicast serve: ")
    assert log.count("\n") == 1
