"""`dicast gateway` as a process: what it prints, what it returns."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading

import httpx
import pytest
from gateway.served import ScriptedServer, forever

from dicast_gateway.cli import main

RUN = [sys.executable, "-c", "import sys; from dicast_gateway.cli import main; sys.exit(main(sys.argv[1:]))"]
BODY = {"state": "s", "questions": {"q": {"type": "noul"}}}


def start(*flags: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*RUN, *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_listens_and_ends_well(stop: signal.Signals) -> None:
    with start("--http-port", "0", "--server", "127.0.0.1:1", DICAST_HTTP_PORT="1") as process:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"http (127\.0\.0\.1:\d+)\n", line)
        assert found, line + process.stderr.read()
        assert httpx.get(f"http://{found[1]}/livez", trust_env=False).json() == {"status": "alive"}
        process.send_signal(stop)
        assert process.wait(20) == 0
        assert process.stdout.read() == ""
        log = process.stderr.read()
        assert "GET /livez 200" in log
        assert "Traceback" not in log


def test_the_environment_is_read() -> None:
    with start(DICAST_HTTP_PORT="0", DICAST_HTTP_HOST="localhost", DICAST_LOG_LEVEL="error") as process:
        assert process.stdout is not None and process.stderr is not None
        assert re.fullmatch(r"http (127\.0\.0\.1|\[::1\]):\d+\n", process.stdout.readline())
        process.terminate()
        assert process.wait(20) == 0
        assert process.stderr.read() == ""


def test_a_request_in_flight_is_answered_before_the_end(url: str, server: ScriptedServer) -> None:
    # The shared gateway's own server is the engine of this process too.
    server.script = forever
    engine = server.address
    with start("--http-port", "0", "--server", engine) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[1]
        statuses: list[int] = []

        def ask() -> None:
            reply = httpx.post(
                f"http://{address}/v1/systemone",
                json=BODY,
                headers={"x-request-timeout": "2"},
                timeout=30,
                trust_env=False,
            )
            statuses.append(reply.status_code)

        asking = threading.Thread(target=ask)
        asking.start()
        assert server.entered.wait(10)
        process.terminate()
        asking.join(20)
        assert statuses == [504]
        assert process.wait(20) == 0


def test_a_taken_port_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["--http-port", port]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"dicast gateway: cannot listen on 127.0.0.1 port {port}: Address already in use\n"


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--http-port", "x"], "--http-port"),
        (["--http-port", "70000"], "--http-port"),
        (["--http-port"], "--http-port"),
        (["--max-body-bytes", "-1"], "--max-body-bytes"),
        (["--log-level", "loud"], "--log-level"),
        (["--nope"], "--nope"),
        (["extra"], "extra"),
        (["--server", ""], "--server"),
    ],
)
def test_usage_errors_are_one_sentence(
    capsys: pytest.CaptureFixture[str], flags: list[str], sentence: str
) -> None:
    assert main(flags) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert err.startswith("dicast gateway: ")
    assert err.count("\n") == 1


def test_bad_environment_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DICAST_HTTP_PORT", "x")
    assert main([]) == 2
    assert "DICAST_HTTP_PORT" in capsys.readouterr().err


def test_help_shows_every_flag_and_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for shown in (
        "--http-host",
        "--http-port",
        "--server",
        "--max-body-bytes",
        "--log-level",
        "8080",
        "50051",
    ):
        assert shown in out
