"""A package with a readout and types of questions: over gRPC, both JSON routes, and in a program."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from gateway.eventstream import EVENTS, told
from gateway.served import Loop
from gateway.tiny import Tiny, tiny_served
from grpc_health.v1 import health_pb2, health_pb2_grpc
from plugins.installing import installed, search_path, write_metadata

import dicast
from dicast import Choice, Client, Json, Options, Plugin, Predicate, Score, jsontext
from dicast.v1 import decision_pb2 as pb
from dicast_server.service.registry import READOUTS, Registry

STATE = "The door is open."
ITEMS = ["red", "green", "blue"]
DIGITS = {"x_dicast": {"readout": {"x_digits": {"first": 0}}}}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    with installed(tmp_path_factory.mktemp("site-packages")):
        return Registry.installed()


@pytest.fixture(scope="module")
def tiny(registry: Registry) -> Iterator[Tiny]:
    loop = Loop()
    with tiny_served(loop, registry=registry) as served:
        yield served
    loop.close()


def of_plugin(type_: str, body: Any, **fields: Any) -> pb.Question:
    extension = pb.ExtensionQuestion(type=type_, json=jsontext.encode(body))
    return pb.Question(extension=extension, **fields)


def test_the_model_tells_of_them(tiny: Tiny) -> None:
    model = tiny.grpc.model()
    assert model.readouts[0] == "letters" and "x_digits" in model.readouts
    assert set(model.question_types) == {"predicate", "choice", "score", "x_rank", "x_likert"}


def test_a_readout_reads_every_type_the_same_on_every_road(tiny: Tiny) -> None:
    questions: dict[str, dicast.Question] = {
        "open": Predicate("Is it open?"),
        "colour": Choice("Which colour?", dict.fromkeys(ITEMS, "a colour")),
        "sure": Score("How sure?", ["not", "half", "very"]),
    }
    options = Options(readout=Plugin("x_digits", {"first": 0}), orders=2, detail="full")
    decision = tiny.grpc.decide(STATE, questions, options=options)
    for answer in decision:
        diagnostics = answer.diagnostics
        assert diagnostics is not None
        assert (diagnostics.readout, diagnostics.prompt_version) == ("x_digits", "x-digits-1")
        assert (diagnostics.passes, diagnostics.orders) == (2, 2)
        digits = {token for each in diagnostics.scores for token in each.candidate_token_ids}
        assert len(digits) == len(diagnostics.scores[0].options)
    hashes = [answer.diagnostics.prompt_hash for answer in decision if answer.diagnostics]

    settings = {**DIGITS["x_dicast"], "orders": 2, "detail": "basic"}
    asked: dict[str, Any] = {
        "open": {"type": "noul", "instructions": "Is it open?"},
        "colour": {
            "type": "choice",
            "instructions": "Which colour?",
            "criteria": dict.fromkeys(ITEMS, "a colour"),
        },
        "sure": {"type": "score", "instructions": "How sure?", "criteria": ["not", "half", "very"]},
    }
    found = tiny.answers("/v1/systemone", {"state": STATE, "questions": asked, "x_dicast": settings})
    assert found["open"]["noul"] == decision.predicate("open").probability
    assert found["colour"]["probabilities"] == decision.choice("colour").probabilities
    assert found["sure"]["score"] == decision.score("sure").score
    assert [each["x_dicast"]["diagnostics"]["prompt_hash"] for each in found.values()] == hashes

    choices = [{"value": item, "description": "a colour"} for item in ITEMS]
    listed = [
        {"type": "predicate", "instructions": "Is it open?"},
        {"type": "choice", "instructions": "Which colour?", "choices": choices},
        {
            "type": "score",
            "instructions": "How sure?",
            "levels": [{"label": label} for label in ("not", "half", "very")],
        },
    ]
    found = tiny.answers("/v1/decisions", {"input": STATE, "questions": listed, "x_dicast": settings})
    assert [each["x_dicast"]["diagnostics"]["prompt_hash"] for each in found] == hashes
    assert found[0]["probability"] == decision.predicate("open").probability


def test_its_settings_matter(tiny: Tiny) -> None:
    def ask(**settings: Any) -> dicast.Answer:
        options = Options(readout=Plugin("x_digits", settings), detail="basic")
        return tiny.grpc.decide(STATE, [Predicate("Is it open?")], options=options)[0]

    assert ask() == ask(first=1) != ask(first=0)


def test_questions_of_its_types_on_every_road(tiny: Tiny) -> None:
    questions: dict[str, dicast.Question] = {
        "rank": of_plugin("x_rank", {"items": ITEMS}, instructions=pb.Content(text="Which colour?")),
        "agree": of_plugin("x_likert", {}, name="n", instructions=pb.Content(text="It is open.")),
    }
    decision = tiny.grpc.decide(STATE, questions)
    rank, agree = decision
    assert isinstance(rank, dicast.ExtensionAnswer) and isinstance(agree, dicast.ExtensionAnswer)
    assert (rank.type, agree.type, agree.name) == ("x_rank", "x_likert", "n")
    ranked, agreed = jsontext.parse(rank.json), jsontext.parse(agree.json)
    assert isinstance(ranked, jsontext.Object) and sorted(ranked) == ["order", "shares"]
    # What it makes of the probabilities are those of a choice with these options.
    plain = tiny.grpc.decide(STATE, [Choice("Which colour?", ITEMS)]).choice(0)
    shares = sorted(plain.probabilities.items(), key=lambda item: -item[1])
    assert ranked == {"order": [item for item, _ in shares], "shares": [share for _, share in shares]}

    asked: dict[str, Any] = {
        "rank": {"type": "x_rank", "instructions": "Which colour?", "items": ITEMS},
        "agree": {"type": "x_likert", "instructions": "It is open."},
    }
    body = {"state": STATE, "questions": asked}
    found = tiny.answers("/v1/systemone", body)
    assert found == {"rank": {"type": "x_rank", **ranked}, "agree": {"type": "x_likert", "value": agreed}}
    events = told(tiny.http.post("/v1/systemone", json=body, headers=EVENTS))
    assert {event["id"]: event["answer"] for event in events.all("answer")} == found

    listed = [asked["rank"], {**asked["agree"], "name": "n"}]
    found = tiny.answers("/v1/decisions", {"input": STATE, "questions": listed})
    assert found == [
        {"type": "x_rank", "name": None, **ranked},
        {"type": "x_likert", "name": "n", "value": agreed},
    ]


def test_conditions_on_its_answers(tiny: Tiny) -> None:
    """A condition compares what its question chose: here an item and a level."""
    first = tiny.answers("/v1/systemone", {"state": STATE, "questions": {"r": rank()}})["r"]["order"][0]
    (other, *_) = [item for item in ITEMS if item != first]
    late = {"type": "noul", "instructions": "Is it late?"}
    questions: dict[str, Any] = {
        "yes": {**late, "ask_if": {"r": [first]}},
        "no": {"type": "x_likert", "ask_if": {"r": [other]}},
        "after": {**rank(), "ask_if": {"no": [0, 1, 2, 3, 4]}},
        "r": rank(),
    }
    reply = tiny.http.post("/v1/systemone", json={"state": STATE, "questions": questions}).json()
    answers = reply["answers"]
    assert answers["yes"]["type"] == "noul" and answers["r"]["order"][0] == first
    assert answers["no"] is answers["after"] is None
    assert reply["x_dicast"]["skipped"] == {
        "no": {"because": "r", "was": first},
        "after": {"because": "no", "was": None},
    }


def rank(**more: Any) -> dict[str, Any]:
    return {"type": "x_rank", "instructions": "Which colour?", "items": ITEMS, **more}


NOUL = {"type": "noul", "instructions": "?"}
WRONG: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    ("own field", rank(items=["a", 1]), {}, "questions.q.x_rank.items.1", "must be a text"),
    ("another field", rank(order=[]), {}, "questions.q.x_rank.order", "is no field of x_rank"),
    ("one item", rank(items=["a"]), {}, "questions.q.x_rank.options", "a choice needs 2 at least"),
    ("type", {"type": "x_sort"}, {}, "questions.q.x_sort.type", "it has x_likert, x_rank"),
    (
        "setting",
        {**NOUL, "x_dicast": {"readout": {"x_digits": {"first": True}}}},
        {},
        "questions.q.noul.x_dicast.readout.x_digits.first",
        "must be 0 or 1",
    ),
    (
        "setting of all",
        NOUL,
        {"x_dicast": {"readout": {"x_digits": {"last": 1}}}},
        "x_dicast.readout.x_digits.last",
        "is no setting of x_digits",
    ),
    (
        "readout",
        NOUL,
        {"x_dicast": {"readout": {"x_words": {}}}},
        "x_dicast.readout.x_words",
        "'x_words' is no readout of this server; it has ",
    ),
]


@pytest.mark.parametrize(
    ("question", "more", "path", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG]
)
def test_what_a_plugin_refuses_has_its_path(
    tiny: Tiny, *, question: dict[str, Any], more: dict[str, Any], path: str, message: str
) -> None:
    reply = tiny.http.post("/v1/systemone", json={"state": STATE, "questions": {"q": question}, **more})
    assert reply.status_code == 422, reply.text
    (fault,) = reply.json()["detail"]
    assert ".".join(map(str, fault["loc"][1:])) == path
    assert message in fault["msg"]
    if question["type"] == "noul":
        question = {**question, "type": "predicate"}
    reply = tiny.http.post("/v1/decisions", json={"input": STATE, "questions": [question], **more})
    assert reply.status_code == 400, reply.text
    assert message in reply.json()["error"]["message"]


def test_what_a_readout_cannot_read_is_not_supported(tiny: Tiny) -> None:
    questions = {"q": {"type": "choice", "criteria": {f"option {place}": None for place in range(11)}}}
    reply = tiny.http.post("/v1/systemone", json={"state": STATE, "questions": questions, **DIGITS})
    assert reply.status_code == 400
    message = "questions.q.choice: has 11 options, and x_digits reads 10"
    assert reply.json()["detail"] == {"error_type": "not_supported", "message": message}


class Number:
    """A type whose answers cannot be written as JSON."""

    name = "x_nan"
    confidence_formula = ""

    def read(self, body: jsontext.Object) -> Any:
        from dicast_server.decisions.questions import Predicate

        return None, Predicate()

    def answer(self, question: Any, probabilities: Any) -> Any:
        from dicast_server.decisions.answers import ExtensionAnswer

        return ExtensionAnswer(self.name, float("nan"))


def test_a_plugin_that_breaks_breaks_its_request_alone(registry: Registry) -> None:
    loop = Loop()
    broken = replace(registry, types={**registry.types, "x_nan": Number()})
    with tiny_served(loop, registry=broken) as tiny:
        with pytest.raises(dicast.Internal):
            tiny.grpc.decide(STATE, [of_plugin("x_nan", {})])
        questions = {"q": {"type": "x_nan"}}
        reply = tiny.http.post("/v1/systemone", json={"state": STATE, "questions": questions})
        assert (reply.status_code, reply.json()["detail"]["error_type"]) == (500, "internal_error")
        assert tiny.grpc.decide(Json("{}"), [Predicate("?")]).answers
    loop.close()


@contextmanager
def running(command: list[str], path: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A program that finds what is installed in these folders."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, stdin=pipe, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_server_finds_what_is_installed(tmp_path: Path) -> None:
    program = str(Path(__file__).parents[1] / "tiny_serve.py")
    command = [sys.executable, program, "--grpc-port", "0", "--min-option-mass", "0"]
    with running(command, search_path(tmp_path)) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[1]
        with grpc.insecure_channel(address) as channel:
            watched = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
            assert any(reply.status == health_pb2.HealthCheckResponse.SERVING for reply in watched)
        with Client(address) as client:
            decision = client.decide(STATE, [of_plugin("x_likert", {})])
        assert isinstance(decision[0], dicast.ExtensionAnswer)


def test_a_server_with_a_bad_plugin_says_so_and_ends(tmp_path: Path) -> None:
    write_metadata(tmp_path, "bad-plugin", {READOUTS: {"x_gone": "no_such_module:GONE"}})
    with running(
        [sys.executable, "-m", "dicast.cli", "serve", "--grpc-port", "0"], [str(tmp_path)]
    ) as process:
        _, log = process.communicate(timeout=60)
    assert process.returncode == 1
    sentence = "'x_gone' of bad-plugin cannot be loaded: No module named 'no_such_module'"
    assert log.splitlines()[-1] == f"dicast serve: {sentence}"
