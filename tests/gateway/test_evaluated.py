"""`dicast eval` of URLs: the real gateway before a real engine around a tiny random model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import labelled_rows
import pytest
from gateway.served import Loop, ScriptedServer, failing
from gateway.tiny import Tiny
from tiny_server import WEIGHTS_HASH

from dicast import AsyncClient
from dicast.cli.command import CommandError
from dicast_server.calibration import file
from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.cli import calibrate, evaluate
from dicast_server.evaluation.grpc_source import GrpcSource
from dicast_server.evaluation.http_source import HttpSource
from dicast_server.evaluation.run import Answered, ask_all
from dicast_server.evaluation.system import Asking

SYSTEMONE, DECISIONS = "/v1/systemone", "/v1/decisions"


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DICAST_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(labelled_rows.write(tmp_path / "rows.jsonl", labelled_rows.rows()))


@pytest.fixture
def base(tiny: Tiny) -> Iterator[str]:
    yield str(tiny.http.base_url).rstrip("/")


def failed(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


async def over_http(url: str, questions: tuple[LabelledQuestion, ...]) -> Answered:
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        return await ask_all(HttpSource.to(client, url, "jev-latest"), questions)


async def over_grpc(address: str, questions: tuple[LabelledQuestion, ...]) -> Answered:
    async with AsyncClient(address) as client:
        return await ask_all(await GrpcSource.connect(client, address, Asking(), None), questions)


async def test_system_one_says_what_the_server_says(tiny: Tiny, base: str, tmp_path: Path) -> None:
    questions = labelled_rows.read(tmp_path, labelled_rows.rows(6))
    served = await over_grpc(tiny.running.address, questions)
    read = await over_http(base + SYSTEMONE, questions)
    assert len(read.said) == len(questions)
    for (_, first), (_, second) in zip(served.said, read.said, strict=True):
        assert second.probabilities == pytest.approx(first.probabilities, abs=1e-12)
        assert first.scores is not None
        assert second.scores is None


async def test_decisions_says_all_that_its_form_can_say(base: str, tmp_path: Path) -> None:
    given = labelled_rows.rows(6)
    given[0]["state"] = [1, "two"]
    given[1]["state"] = [{"a": 1.50}]
    given[2]["question"]["instructions"] = {"ask": "how urgent"}
    read = await over_http(base + DECISIONS, labelled_rows.read(tmp_path, given))
    assert read.left_out == ()
    assert [len(said.probabilities) for _, said in read.said[:3]] == [2, 3, 3]


def test_two_systems_are_compared_question_by_question(
    tiny: Tiny, base: str, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "figures.json"
    argv = [data, "--url", base + SYSTEMONE, "--against", tiny.running.address, "--json", str(out)]
    assert evaluate.main([*argv, "--report", str(tmp_path / "pages")]) == 0
    page = (tmp_path / "pages" / "report.html").read_text()
    assert "A and B are right about equally often" in page
    shown = capsys.readouterr().out
    assert "60 of 60 questions" in shown
    assert f"A: jev-latest ({base}{SYSTEMONE})" in shown
    assert f"B: tiny ({tiny.running.address})" in shown
    written = json.loads(out.read_text())
    assert [part["type"] for part in written["parts"]] == [None, "predicate", "choice", "score"]
    assert written["parts"][0]["rows"] == 60
    misses = [system["misses"] for system in written["systems"]]
    assert misses[0] == misses[1] and len(misses[0]) == 20
    for name, difference in written["parts"][0]["differences"].items():
        assert difference == pytest.approx([0.0] * 3, abs=1e-9), name
    assert list(tmp_path.glob("*.answers.jsonl")) == []


def test_one_system_has_a_report_too(base: str, data: str, tmp_path: Path) -> None:
    assert evaluate.main([data, "--url", base + SYSTEMONE, "--report", str(tmp_path / "pages")]) == 0
    assert "not told" in (tmp_path / "pages" / "report.html").read_text()


def test_the_exit_code_says_which_threshold_is_missed(
    base: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = ["--url", base + SYSTEMONE]
    assert evaluate.main([data, *url, "--min-accuracy", "0", "--max-ece", "1"]) == 0
    assert failed(capsys) == ""
    assert evaluate.main([data, *url, "--min-accuracy", "1", "--max-ece", "0"]) == 1
    told = failed(capsys)
    assert "is below --min-accuracy 1" in told
    assert "is above --max-ece 0" in told


def test_what_cannot_be_measured_is_another_exit_code(
    loop: Loop, base: str, url: str, server: ScriptedServer, data: str, tmp_path: Path, capsys: Any
) -> None:
    assert evaluate.main([data, "--server", "127.0.0.1:1", "--wait", "0"]) == 3
    assert "no dicast server answers there" in failed(capsys)
    assert evaluate.main([data, "--url", f"http://127.0.0.1:1{SYSTEMONE}"]) == 3
    assert "does not answer" in failed(capsys)
    assert evaluate.main([data, "--url", f"{base}/none{SYSTEMONE}"]) == 3
    assert "answers status 404" in failed(capsys)
    few = labelled_rows.write(tmp_path / "few.jsonl", labelled_rows.rows(16))
    assert evaluate.main([str(few), "--url", base + SYSTEMONE]) == 3
    assert "answered 48 questions, and figures take 50 at least" in failed(capsys)


def test_what_is_refused_is_listed_with_its_reason(
    url: str, server: ScriptedServer, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import grpc

    server.script = failing(grpc.StatusCode.INVALID_ARGUMENT, "too many tokens", "CONTEXT_EXCEEDED")
    assert evaluate.main([data, "--url", url + SYSTEMONE]) == 3
    shown = capsys.readouterr()
    assert "60 rows were left out:" in shown.out
    assert "line 1, 0a: status 400: too many tokens" in shown.out
    assert "and 50 more" in shown.out
    assert "answered 0 questions" in shown.err


def test_figures_that_cannot_be_written_are_told_before_anything_is_asked(
    url: str, server: ScriptedServer, data: str, tmp_path: Path
) -> None:
    for out, why in ((tmp_path, "Is a directory"), (Path(data) / "figures.json", "File exists")):
        with pytest.raises(CommandError, match=f"--json: .* cannot be written: {why}") as caught:
            evaluate.main([data, "--url", url + SYSTEMONE, "--json", str(out)])
        assert caught.value.code == 3
    assert server.metadata == []
    # What was there stays until there is something new, and nothing new is left of a run that fails.
    old, new = tmp_path / "old.json", tmp_path / "new" / "figures.json"
    old.write_text("old")
    for out in (old, new):
        argv = [data, "--url", "http://127.0.0.1:1" + SYSTEMONE, "--json", str(out)]
        assert evaluate.main(argv) == 3
    assert old.read_text() == "old"
    assert not new.exists()


def test_what_a_file_says_does_not_steer_the_terminal(
    url: str, server: ScriptedServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import grpc

    server.script = failing(grpc.StatusCode.INVALID_ARGUMENT, "too \x1b[2J many", "CONTEXT_EXCEEDED")
    given = labelled_rows.rows()
    given[0]["id"] = "\x1b[31mred\n"
    path = labelled_rows.write(tmp_path / "rows.jsonl", given)
    assert evaluate.main([str(path), "--url", url + SYSTEMONE]) == 3
    shown = capsys.readouterr().out
    assert r"line 1, \x1b[31mred\n: status 400: too \x1b[2J many" in shown
    assert "\x1b" not in shown


def test_wrong_usage_is_2(data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flags, why in (
        (["--url", "http://127.0.0.1:1/v1/chat"], "ends in /v1/systemone or /v1/decisions"),
        (["--against", "ftp://a/v1/systemone"], "is no http URL"),
        (["--orders", "33"], "not between 1 and 32"),
        (["--min-accuracy", "2"], "no number from 0 to 1"),
        (["--url", "http://a/v1/systemone", "--server", "a:1"], "not allowed with argument"),
    ):
        with pytest.raises(CommandError, match=why) as caught:
            evaluate.main([data, *flags])
        assert caught.value.code == 2
    assert evaluate.main([str(tmp_path / "none.jsonl")]) == 2
    assert "cannot be read" in failed(capsys)


def test_a_server_can_be_calibrated_where_it_runs(
    tiny: Tiny, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "fit.json"
    assert calibrate.main([data, "--server", tiny.running.address, "--orders", "2", "--out", str(out)]) == 0
    key = file.read(out).key
    assert key.weights_hash == WEIGHTS_HASH
    assert (key.model, key.quantization, key.profile) == ("tiny", "float32", "stock")
    assert (key.settings, key.orders) == ({"style": "plain", "correct_prior": False}, 2)
    with pytest.raises(CommandError, match="no dicast server answers there"):
        calibrate.main([data, "--server", "127.0.0.1:1", "--wait", "0"])


def test_a_key_goes_to_its_own_system_alone(url: str, server: ScriptedServer, data: str) -> None:
    argv = [data, "--url", url + SYSTEMONE, "--against", url + DECISIONS, "--api-key", "own"]
    assert evaluate.main([*argv, "--against-key", "other"]) == 0
    sent = [metadata.get("authorization") for metadata in server.metadata]
    assert sent == ["Bearer own"] * 20 + ["Bearer other"] * 20
    server.reset()
    assert evaluate.main(argv) == 0
    assert [metadata.get("authorization") for metadata in server.metadata] == ["Bearer own"] * 20 + [
        None
    ] * 20
