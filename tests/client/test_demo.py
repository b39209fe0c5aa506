"""`dicast demo`: three ways, the same bits, and commands that ask again."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from pathlib import Path

import pytest
from client.fake_service import FakeService

from client import children
from dicast import _encode
from dicast.cli import demo, main, ticket
from dicast.cli.command import CommandError
from dicast.cli.pair import start
from dicast.cli.processes import Group


def test_it_starts_asks_compares_and_stops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    assert demo.run(children.pair(log), patience_s=30) == 0
    said = capsys.readouterr().out
    assert "gave the same 13 values, to the last bit." in said
    assert "OpenBLAS 0.3.30, 2 threads" in said
    assert "waited: yes\n" in said and "█" in said
    assert max(map(len, said.splitlines())) <= 100
    assert (log.read_text().splitlines()[1:]) == ["gateway stopped", "engine stopped"]


def test_a_difference_in_the_last_bit_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CommandError) as caught:
        demo.run(children.pair(tmp_path / "log", off=1), patience_s=30)
    assert caught.value.code == 1
    assert "waited is 0.7 over gRPC and 0.7000000000000001 over POST /v1/systemone" in str(caught.value)
    assert "/v1/decisions" in str(caught.value)
    assert "the same" not in capsys.readouterr().out


def test_a_running_pair_can_be_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Group() as group:
        running = start(group, children.pair(tmp_path / "log"), patience_s=30)
        assert main(["demo", "--server", running.grpc, "--http", running.http]) == 0
        assert "to the last bit" in capsys.readouterr().out
        assert main(["demo", "--server", running.grpc, "--http", "127.0.0.1:1"]) == 1
        assert capsys.readouterr().err.startswith("dicast demo: no gateway answers at http://127.0.0.1:1: ")
    assert main(["demo", "--server", running.grpc]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_curl_line_holds_the_same_request() -> None:
    words = shlex.split("\n".join(ticket.curl_lines("127.0.0.1:8080")))
    assert words[:3] == ["curl", "-s", "http://127.0.0.1:8080/v1/systemone"]
    assert json.loads(words[-1]) == ticket.systemone_body("jev-latest")


def test_the_python_lines_ask_the_same_request(fake: FakeService) -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec("\n".join(ticket.python_lines(fake.address)), {})
    assert said.getvalue().count("\n") == 3
    assert fake.calls[0].request == _encode.decide_request(ticket.STATE, ticket.QUESTIONS)


def test_the_bodies_say_what_the_questions_say() -> None:
    for body in (ticket.systemone_body("m"), ticket.decisions_body("m")):
        asked = body["questions"]
        bodies = asked.values() if isinstance(asked, dict) else asked
        sent = _encode.questions([children.question(each) for each in bodies])
        wanted = _encode.questions(list(ticket.QUESTIONS.values()))
        assert sent == wanted
