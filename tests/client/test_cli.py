"""The `dicast` command: dispatch, one-sentence errors, decide and models against a scripted server."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grpc
import pytest
from client.fake_service import MODEL_ID, FakeService, answer, fail, info, model, summary
from google.rpc import error_details_pb2

from dicast.cli import main
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import model_service_pb2 as model_pb

ASK = [
    "decide",
    "I was charged twice.",
    "--predicate",
    "angry=Is the customer angry?",
    "--choice",
    "team=Which team?=billing: charges, refunds|shipping",
    "--score",
    "soon=How urgent?=can wait|today|now",
]


@pytest.fixture
def server(fake: FakeService, monkeypatch: pytest.MonkeyPatch) -> FakeService:
    """The scripted server, as the one that the environment names."""
    monkeypatch.setenv("DICAST_SERVER", fake.address)
    return fake


def failure(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr."""
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1 and said.err.endswith("\n")
    return said.err.strip()


def test_help_lists_all_commands_with_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    for name in ("decide", "demo", "gateway", "models", "serve", "up"):
        assert any(line.startswith(f"  {name} ") for line in said.splitlines())
    # Those of dicast's own packages say what they do.
    assert "a command of dicast" not in said


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"dicast {version('dicast')}\n"


def test_a_missing_or_unknown_command_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert failure(capsys).startswith("dicast: a command is needed")
    assert main(["nothing"]) == 2
    assert failure(capsys) == "dicast: there is no command 'nothing'; `dicast --help` lists them"


@pytest.mark.parametrize("command", ["decide", "models", "up", "demo"])
def test_each_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"usage: dicast {command} ")
    assert max(map(len, said.splitlines())) <= 110


def test_decide_prints_bars_for_people(server: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(ASK) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "angry: yes"
    assert said[1].split() == ["yes", "█" * 28, "0.7000"]
    assert "team: billing  (confidence 0.200)" in said
    assert any(line.split()[:3] == ["2", "now", "█" * 9 + "▎"] for line in said)
    assert said[-1] == f"{MODEL_ID} · 90 tokens (60 cached) · 125 ms · request request-1"
    assert max(map(len, said)) <= 100
    sent: service_pb.DecideRequest = server.calls[0].request
    assert sent.state.text == "I was charged twice."
    assert [question.key for question in sent.questions] == ["angry", "team", "soon"]
    assert sent.questions[1].choice.options[0].description.text == "charges, refunds"


def test_decide_prints_unrounded_json(server: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASK, "--json", "--detail", "full", "--temperature", "0.5", "--model", "m"]) == 0
    said = json.loads(capsys.readouterr().out)
    reply = answer(1, server.calls[0].request.questions[1]).choice
    assert said["model"] == MODEL_ID
    assert said["answers"][0] == {"key": "angry", "type": "predicate", "value": True, "probability": 0.7}
    assert said["answers"][1] == {
        "key": "team",
        "type": "choice",
        "value": "billing",
        "confidence": reply.confidence,
        "probabilities": [
            {"value": each.value.string_value, "probability": each.probability}
            for each in reply.probabilities
        ],
    }
    assert [each["label"] for each in said["answers"][2]["probabilities"]] == ["can wait", "today", "now"]
    assert said["usage"]["input_tokens"] == 90
    sent: service_pb.DecideRequest = server.calls[0].request
    assert (sent.model, sent.options.temperature) == ("m", 0.5)
    assert sent.options.detail == pb.DETAIL_LEVEL_FULL


@pytest.mark.parametrize(
    ("name", "readout"),
    [
        ("letters", pb.Readout(letters=pb.LettersReadout())),
        ("direct", pb.Readout(direct=pb.DirectReadout())),
        ("candidates", pb.Readout(candidates=pb.CandidatesReadout())),
        ("x_digits", pb.Readout(extension=pb.Extension(name="x_digits", json="{}"))),
    ],
)
def test_decide_says_how_to_read(
    server: FakeService, capsys: pytest.CaptureFixture[str], name: str, readout: pb.Readout
) -> None:
    assert main([*ASK, "--readout", name, "--orders", "4"]) == 0
    options = server.calls[0].request.options
    assert (options.readout, options.orders) == (readout, 4)


def test_decide_knows_the_readouts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASK, "--readout", "digits"]) == 2
    assert "'digits' is none of letters, direct, candidates, and no plugin's" in capsys.readouterr().err


def test_decide_shows_what_was_not_answered(server: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
    def script(*_: object) -> service_pb.DecideResponse:
        skipped = pb.Answer(key="a", skipped=pb.SkippedAnswer(because="b"))
        skipped.skipped.was.string_value = "x"
        refused = pb.RefusedAnswer(reason=pb.RefusedAnswer.REASON_ABSTAINED, message="too\nuncertain")
        plugin = pb.Extension(name="rank", json="[1]")
        answers = [skipped, pb.Answer(key="b", refused=refused), pb.Answer(key="c", extension=plugin)]
        return service_pb.DecideResponse(answers=answers, summary=summary("r"))

    server.decide = script
    assert main(ASK) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == 'a: skipped, because b was "x"'
    assert said[2] == "b: refused (abstained): too\\nuncertain"
    assert said[4] == "c: rank [1]"
    assert main([*ASK, "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert answers[0] == {"key": "a", "type": "skipped", "because": "b", "was": "x"}
    assert answers[2] == {"key": "c", "type": "rank", "json": [1]}


@pytest.mark.parametrize("where", ["file", "dash", "nothing"])
def test_the_state_from_a_file_or_stdin(
    where: str, server: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '{"b": 1.0, "a": "é"}'
    (tmp_path / "state").write_bytes(text.encode())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode()), "ascii"))
    arguments = {"file": ["--state-file", str(tmp_path / "state")], "dash": ["-"], "nothing": []}[where]
    assert main(["decide", *arguments, "--json-state", "--predicate", "a=?"]) == 0
    assert server.calls[0].request.state == pb.State(json=text)


def test_questions_from_a_file(server: FakeService, tmp_path: Path) -> None:
    file = tmp_path / "questions.json"
    body = {
        "late": {"type": "noul", "instructions": {"ask": 1}, "criteria": {"true": "t", "false": None}},
        "team": {"type": "choice", "instructions": "Which?", "criteria": {"b": "refunds", "a": None}},
        "flag": {"type": "choice", "criteria": [True, "no"]},
        "soon": {"type": "score", "instructions": None, "criteria": ["low", {"min": 3}]},
        "plain": {"type": "predicate", "instructions": "?"},
    }
    file.write_text(json.dumps(body).replace("3", "3.0"), encoding="utf-8")
    assert main(["decide", "x", "--questions", str(file), "--predicate", "more=?"]) == 0
    late, team, flag, soon, plain, more = server.calls[0].request.questions
    assert (late.key, late.instructions.json, late.predicate.when_true.text) == ("late", '{"ask": 1}', "t")
    assert late.predicate.when_false.json == "null"
    assert [option.value.string_value for option in team.choice.options] == ["b", "a"]
    assert team.choice.options[1].description.json == "null"
    assert not flag.HasField("instructions") and flag.choice.options[0].value.bool_value is True
    assert soon.instructions.json == "null"
    assert (soon.score.levels[0].label, soon.score.levels[1].description.json) == ("low", '{"min": 3.0}')
    assert (plain.predicate.HasField("when_true"), more.key) == (False, "more")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not JSON"),
        ("[]", "an object with a question for each key is needed"),
        ("{}", "an object with a question for each key is needed"),
        ('{"a": 1}', "a: an object with a type is needed"),
        ('{"a": {}}', "a.type: is none of predicate, choice, score"),
        ('{"a": {"type": "box"}}', "a.type: is none of predicate, choice, score"),
        ('{"a": {"type": "choice"}}', "a.criteria: a choice needs an object of options or a list of texts"),
        ('{"a": {"type": "choice", "criteria": [1]}}', "a.criteria: a choice needs"),
        ('{"a": {"type": "score", "criteria": {}}}', "a.criteria: a score needs a list of levels"),
        (
            '{"a": {"type": "noul", "criteria": {"yes": ""}}}',
            'a.criteria: a predicate takes an object with "true"',
        ),
        ('{"a": {"type": "noul", "x": 1}}', "a.x: is no field of a question"),
        ('{"a": {"type": "choice", "criteria": {"b": 1, "b": 2}}}', "a.criteria.b: is there twice"),
    ],
)
def test_a_faulty_file_of_questions_is_one_sentence(
    text: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "q.json"
    file.write_text(text, encoding="utf-8")
    assert main(["decide", "x", "--questions", str(file)]) == 2
    assert f"--questions {file}: {problem}" in failure(capsys)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["x"], "a question is needed"),
        (["x", "--predicate", "late"], "'late' is not of the form KEY=QUESTION"),
        (["x", "--choice", "late=Which?"], "is not of the form KEY=QUESTION=OPTION: DESCRIPTION|OPTION"),
        (["x", "--score", "late=How?=a||b"], "has an empty place in its list"),
        (["x", "--predicate", "a=?", "--predicate", "a=?"], "the question 'a' is there twice"),
        (["x", "--predicate", "a=?", "--state-file", "f"], "the state is given twice"),
        (["--state-file", "/nowhere/f", "--predicate", "a=?"], "--state-file /nowhere/f: No such file"),
        (["x", "--questions", "/nowhere/f"], "--questions /nowhere/f: No such file"),
        (["{", "--json-state", "--predicate", "a=?"], "the state: is not JSON"),
        (["null", "--json-state", "--timeout", "x", "--predicate", "a=?"], "'x' is no number of seconds"),
        (["x", "--predicate", "a=?", "--detail", "all"], "invalid choice: 'all'"),
        (["x", "--predicate", "a=?", "--api-key", "a\nb"], "api_key: printable ASCII characters are needed"),
        (["x", "--predicate", "a=?", "--nothing"], "unrecognized arguments: --nothing"),
    ],
)
def test_a_mistake_in_the_command_line_is_one_sentence(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["decide", *arguments]) == 2
    said = failure(capsys)
    assert said.startswith("dicast decide: ") and problem in said


@pytest.mark.parametrize("arguments", [ASK, ["models"]])
def test_no_server_is_one_sentence(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "--server", "127.0.0.1:1"]) == 1
    assert "no dicast server answers at 127.0.0.1:1: start one with `dicast up`" in failure(capsys)


def test_what_the_server_says_is_one_sentence(
    server: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    def script(_: object, context: grpc.ServicerContext) -> None:
        violation = error_details_pb2.BadRequest.FieldViolation(
            field="questions[0].choice.options", description="give at least 2"
        )
        details = error_details_pb2.BadRequest(field_violations=[violation])
        fail(context, grpc.StatusCode.INVALID_ARGUMENT, "too few\noptions", info("INVALID"), details)

    server.decide = script
    assert main(ASK) == 1
    assert failure(capsys) == (
        "dicast decide: too few options (questions[0].choice.options: give at least 2)"
    )


def test_the_key_of_the_environment_is_sent(server: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DICAST_API_KEY", "k-1")
    assert main(["models"]) == 0
    assert server.calls[0].metadata["authorization"] == "Bearer k-1"


def test_models_for_people(server: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{MODEL_ID}  ready\n")
    assert "cpu, OpenBLAS 0.3.30, 2 threads, MLX 0.32.4" in said
    assert "8192 tokens, 400 questions, 255 options" in said
    assert "134.5 million parameters, Q4_1" in said
    assert max(map(len, said.splitlines())) <= 100


def test_models_show_what_the_start_up_check_warns_of(
    server: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    server.models[0].status_message = "its answers look like guesses: 3 of 6 known answers were right"
    assert main(["models"]) == 0
    note, check = (line for line in capsys.readouterr().out.splitlines() if "right" in line)
    assert note.split() == ["note", *server.models[0].status_message.split()]
    assert check.split(None, 1) == ["self-check", "3 of 6 right, option mass 0.930"]


def test_models_for_programs(server: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--json"]) == 0
    (said,) = json.loads(capsys.readouterr().out)
    assert (said["id"], said["status"], said["limits"]["options"]) == (MODEL_ID, "ready", 255)
    assert said["engine"] == {
        "device": "cpu",
        "blas": "OpenBLAS 0.3.30",
        "blas_threads": 2,
        "mlx_version": "0.32.4",
        "head_path": "",
        "shared_tails": False,
        "costs_hash": "",
    }
    assert said["loaded_at"] == "2026-11-30T10:00:00+00:00"


def run(arguments: list[str], **settings: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "dicast.cli", *arguments]
    return subprocess.run(command, capture_output=True, check=False, **settings)


def test_a_terminal_without_utf8_gets_plain_bars(server: FakeService) -> None:
    choice = ["decide", "x", "--choice", "c=?=café|日本"]
    done = run(choice, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"#####" in done.stdout and b"caf\\xe9" in done.stdout
    done = run(choice, env={**os.environ, "PYTHONIOENCODING": "utf-8"})
    assert "█" in done.stdout.decode() and "日本" in done.stdout.decode()


def test_a_reader_that_leaves_is_no_traceback(server: FakeService) -> None:
    script = f"{sys.executable} -m dicast.cli models --json | true"
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=False)
    assert done.stderr == b""


def test_an_interrupt_is_no_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted:
        def isatty(self) -> bool:
            raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin", Interrupted())
    assert main(["decide", "--predicate", "a=?"]) == 130
    assert capsys.readouterr().err == ""


def test_an_unforeseen_error_is_one_sentence(
    server: FakeService, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert main(["decide", "--predicate", "a=?"]) == 1
    assert "dicast decide: AttributeError: " in failure(capsys)
    monkeypatch.setenv("DICAST_DEBUG", "1")
    with pytest.raises(AttributeError):
        main(["decide", "--predicate", "a=?"])


def test_models_show_adapters(server: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
    server.models.append(model())
    tuned = server.models[1]
    tuned.id = f"{MODEL_ID}:support"
    tuned.adapter.CopyFrom(
        model_pb.Adapter(
            name="support",
            base=MODEL_ID,
            hash="ab" * 32,
            rank=8,
            modules=14,
            readout="letters",
            style="plain",
            verdict="better",
        )
    )
    tuned.adapter.made_at.FromJsonString("2026-11-30T10:00:00Z")
    server.models.append(model(model_pb.Model.STATUS_REFUSED))
    server.models[2].adapter.CopyFrom(model_pb.Adapter(name="broken", base=MODEL_ID))
    assert main(["models"]) == 0
    lines = [line.split(None, 1) for line in capsys.readouterr().out.splitlines() if line]
    assert [line[1] for line in lines if line[0] == "adapter"] == [
        "abababababab, rank 8 in 14 linear layers, tuned for letters (plain), better",
        "not read",
    ]
    assert main(["models", "--json"]) == 0
    base, adapted, broken = json.loads(capsys.readouterr().out)
    assert base["adapter"] is None
    assert adapted["adapter"]["made_at"] == "2026-11-30T10:00:00+00:00"
    assert broken["adapter"]["made_at"] is None
