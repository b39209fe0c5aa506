"""One request on every road: gRPC, both JSON routes, the real SDKs, the command line; and bad ones."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import grpc
import httpx
import pytest
from openai import OpenAI
from running_pair import Pair
from typesafe_sdk import Choice as TypesafeChoice
from typesafe_sdk import Noul, TypeSafeClient
from typesafe_sdk import Score as TypesafeScore

import dicast
from dicast import Choice, Client, Predicate, Request, Score

WHICH_TEAM = "Which team should handle this message?"
STATE = "Customer message: I was charged twice for my order last week and nobody has replied."
TEAMS = {"billing": "charges, refunds, invoices", "shipping": "delivery and tracking", "technical": "bugs"}
LEVELS = ["can wait", "should be handled today", "needs an immediate reply"]
QUESTIONS: dict[str, Choice | Predicate | Score] = {
    "route": Choice(WHICH_TEAM, TEAMS),
    "angry": Predicate("Is the customer angry?"),
    "urgency": Score("How urgent is this message?", LEVELS),
}


@pytest.fixture(scope="module")
def decision(pair: Pair) -> dicast.Decision:
    with Client(pair.grpc) as client:
        return client.decide(STATE, QUESTIONS)


@pytest.fixture
def http(pair: Pair) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=pair.base_url, timeout=60) as client:
        yield client


def test_the_typesafe_sdk_gets_the_same_numbers(pair: Pair, decision: dicast.Decision) -> None:
    with TypeSafeClient(api_key="k", base_url=pair.base_url, timeout=60) as client:
        reply = client.system_one(
            state=STATE,
            questions={
                "route": TypesafeChoice(instructions=WHICH_TEAM, criteria=TEAMS),
                "angry": Noul(instructions="Is the customer angry?"),
                "urgency": TypesafeScore(instructions="How urgent is this message?", criteria=LEVELS),
            },
        )
        assert client.models.list().models
    assert reply.nouls["angry"].noul == decision.predicate("angry").probability
    route, urgency = reply.choices["route"], reply.scores["urgency"]
    assert route.choice == decision.choice("route").value
    assert route.confidence == decision.choice("route").confidence
    assert dict(route.probabilities) == dict(decision.choice("route").probabilities)
    assert urgency.score == decision.score("urgency").score
    assert list(urgency.probabilities.values()) == list(decision.score("urgency").probabilities)
    assert list(urgency.legend.values()) == LEVELS
    assert reply.request_id
    assert reply.model == decision.model
    assert decision.model.partition(":")[0] == "smollm2-135m-instruct"


def test_the_openai_sdk_gets_the_same_numbers(pair: Pair, decision: dicast.Decision) -> None:
    client = OpenAI(api_key="k", base_url=pair.base_url + "/v1")
    reply = client.decisions.create(
        model="jev-latest",
        input=STATE,
        questions=[
            {
                "type": "choice",
                "instructions": WHICH_TEAM,
                "choices": [{"value": name, "description": text} for name, text in TEAMS.items()],
            },
            {"type": "predicate", "name": "angry", "instructions": "Is the customer angry?"},
            {
                "type": "score",
                "instructions": "How urgent is this message?",
                "levels": [{"label": level} for level in LEVELS],
            },
        ],
    )
    answers: list[Any] = list(reply.answers)
    assert [answer.type for answer in answers] == ["choice", "predicate", "score"]
    assert answers[0].choice == decision.choice("route").value
    assert [p.probability for p in answers[0].probabilities] == list(
        decision.choice("route").probabilities.values()
    )
    assert answers[1].probability == decision.predicate("angry").probability
    assert answers[2].score == decision.score("urgency").score
    assert [p.label for p in answers[2].probabilities] == LEVELS
    assert reply.usage.input_tokens == decision.usage.input_tokens
    client.close()


def test_user_messages_are_evidence(http: httpx.Client, decision: dicast.Decision) -> None:
    head, tail = STATE.split(" and nobody")
    question = {"type": "predicate", "instructions": "Is the customer angry?"}
    body = {"model": "jev-latest", "questions": [question]}
    whole = http.post("/v1/decisions", json={**body, "input": [{"role": "user", "content": STATE}]}).json()
    parts = http.post(
        "/v1/decisions",
        json={
            **body,
            "input": [
                {
                    "role": "user",
                    "content": [{"type": "input_text", "text": head}, {"type": "input_text", "text": tail}],
                }
            ],
        },
    ).json()
    assert whole["answers"][0]["probability"] == pytest.approx(
        decision.predicate("angry").probability, abs=1e-5
    )
    assert parts["answers"][0]["probability"] != whole["answers"][0]["probability"]


def test_a_stream_gives_the_same_answers(pair: Pair, decision: dicast.Decision) -> None:
    answers: dict[str, Any] = {}
    requests = [Request("one", STATE, QUESTIONS), Request("bad", STATE, {})]
    with Client(pair.grpc) as client, client.stream(requests) as events:
        for event in events:
            if isinstance(event, dicast.Answered):
                answers[event.answer.key] = event.answer
            elif isinstance(event, dicast.Failed):
                assert event.id == "bad"
                assert isinstance(event.error, dicast.InvalidRequest)
            else:
                assert event.id == "one"
    assert [answers[key] for key in QUESTIONS] == list(decision.answers)


def test_the_command_line_gives_the_same_numbers(pair: Pair, decision: dicast.Decision) -> None:
    questions = {
        "route": {
            "type": "choice",
            "instructions": WHICH_TEAM,
            "criteria": TEAMS,
        },
        "angry": {"type": "noul", "instructions": "Is the customer angry?"},
        "urgency": {"type": "score", "instructions": "How urgent is this message?", "criteria": LEVELS},
    }
    command = [sys.executable, "-m", "dicast.cli", "decide", STATE, "--json", "--server", pair.grpc]
    done = subprocess.run(
        [*command, "--questions", "/dev/stdin"],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        check=True,
    )
    shown = json.loads(done.stdout)
    assert json.dumps(decision.predicate("angry").probability) in done.stdout
    assert shown["usage"]["input_tokens"] == decision.usage.input_tokens


def test_orders_and_a_readout_that_the_model_has_not_on_the_command_line(pair: Pair) -> None:
    with Client(pair.grpc) as client:
        wanted = client.decide(STATE, {"angry": QUESTIONS["angry"]}, options=dicast.Options(orders=2))
    command = [sys.executable, "-m", "dicast.cli", "decide", STATE, "--json", "--server", pair.grpc]
    asked = ["--predicate", "angry=Is the customer angry?", "--orders", "2"]
    done = subprocess.run([*command, *asked], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["answers"][0]["probability"] == wanted.predicate("angry").probability
    refused = subprocess.run(
        [*command, *asked, "--readout", "direct"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert "questions[0].readout: reads what the model would reply" in refused.stderr


def test_conditions_on_every_road(pair: Pair, http: httpx.Client, decision: dicast.Decision) -> None:
    """A question that was skipped on one road was asked on another, which had no such field."""
    team, angry = decision.choice("route").value, decision.predicate("angry").value
    teams: dict[str, Any] = {"type": "choice", "instructions": WHICH_TEAM, "criteria": TEAMS}
    noul = {"type": "noul", "instructions": "Is the customer angry?"}
    words = {True: "yes", False: "no"}
    with Client(pair.grpc) as client:
        found = client.decide(
            STATE,
            {
                "asked": dicast.Predicate("Is the customer angry?", ask_if={"route": str(team)}),
                "skipped": dicast.Predicate("Is it late?", ask_if={"asked": [not angry]}),
                "never": dicast.Predicate("Is it cheap?"),
                "route": QUESTIONS["route"],
            },
            ask=["route", "asked", "skipped"],
        )
    assert [answer.key for answer in found] == ["asked", "skipped", "route"]
    assert found.predicate("asked").value == angry
    skipped = found["skipped"]
    assert isinstance(skipped, dicast.Skipped)
    assert (skipped.because, skipped.was) == ("asked", angry)
    questions = {
        "asked": {**noul, "ask_if": {"route": [team]}},
        "skipped": {**noul, "instructions": "Is it late?", "ask_if": {"asked": [words[not angry]]}},
        "never": {**noul, "instructions": "Is it cheap?"},
        "route": teams,
    }
    body = {"state": STATE, "questions": questions, "ask": ["route", "asked", "skipped"]}
    reply = http.post("/v1/systemone", json=body).json()
    assert list(reply["answers"]) == ["asked", "skipped", "route"]
    assert reply["answers"]["asked"]["noul"] == found.predicate("asked").probability
    assert reply["answers"]["skipped"] is None
    assert reply["x_dicast"]["skipped"] == {"skipped": {"because": "asked", "was": angry}}


LONG = "Parcel 7 left Porto on 12 September and has not moved for nine days. " * 12


def test_a_prewarmed_state_is_read_once(pair: Pair, http: httpx.Client) -> None:
    reply = http.post("/v1/prewarm", json={"state": LONG, "time_to_live_s": 60})
    assert reply.status_code == 200
    warmed = reply.json()
    assert warmed == {
        "model": warmed["model"],
        "ok": True,
        "prompt_tokens": warmed["prompt_tokens"],
        "cached_tokens": 0,
        "reason": "",
    }
    with Client(pair.grpc) as client:
        decision = client.decide(LONG, {"late": Predicate("Is the parcel late?")})
        assert decision.usage.cached_tokens == warmed["prompt_tokens"] > 128
        assert client.model().store.used_bytes > 0
    usage = http.post("/v1/decisions", json=decisions(input=LONG)).json()["usage"]
    assert usage["input_tokens_details"]["cached_tokens"] == warmed["prompt_tokens"]
    command = [sys.executable, "-m", "dicast.cli", "prewarm", LONG, "--ttl", "5", "--server", pair.grpc]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (
        done.stdout
        == f"kept: {warmed['prompt_tokens']} tokens, {warmed['prompt_tokens']} of them known before\n"
    )


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({}, "state"),
        ({"state": None}, "state"),
        ({"state": 5}, "state"),
        ({"state": "s", "time_to_live_s": 0}, "time_to_live_s"),
        ({"state": "s", "time_to_live_s": 1e9}, "time_to_live_s"),
        ({"state": "s", "time_to_live_s": True}, "time_to_live_s"),
        ({"state": "s", "questions": {}}, "questions"),
    ],
)
def test_bad_prewarm_requests(http: httpx.Client, body: dict[str, Any], loc: str) -> None:
    reply = http.post("/v1/prewarm", json=body)
    assert reply.status_code == 422, reply.text
    assert reply.json()["detail"][0]["loc"] == ["body", loc]


def test_prewarming_more_than_the_model_reads(http: httpx.Client) -> None:
    reply = http.post("/v1/prewarm", json={"state": "word " * 9000})
    assert (reply.status_code, reply.json()["detail"]["error_type"]) == (400, "max_tokens_exceeded")


NOUL = {"type": "noul", "instructions": "Is it?"}
PREDICATE = {"type": "predicate", "instructions": "Is it?"}


def systemone(question: Any = NOUL, **fields: Any) -> dict[str, Any]:
    return {"model": "jev-latest", "state": "s", "questions": {"q": question}, **fields}


def decisions(question: Any = PREDICATE, **fields: Any) -> dict[str, Any]:
    return {"model": "jev-latest", "input": "s", "questions": [question], **fields}


def noul_choice(count: int) -> dict[str, Any]:
    return {"type": "choice", "instructions": "?", "criteria": {f"o{n:03}": None for n in range(count)}}


def noul_score(count: int) -> dict[str, Any]:
    return {"type": "score", "instructions": "?", "criteria": ["level"] * count}


def choice(*values: str) -> dict[str, Any]:
    return {"type": "choice", "instructions": "?", "choices": [{"value": value} for value in values]}


def score(count: int) -> dict[str, Any]:
    return {"type": "score", "instructions": "?", "levels": [{"label": "l"}] * count}


# What is wrong, in the words of each dialect: a body and the step of `loc` or the `param` at fault.
BAD_SYSTEMONE: list[tuple[str, dict[str, Any], str]] = [
    ("no state", {"questions": {"q": NOUL}}, "state"),
    ("null state", systemone(state=None), "state"),
    ("no questions", systemone(questions={}), "questions"),
    ("401 questions", systemone(questions={str(n): NOUL for n in range(401)}), "questions"),
    ("unknown type", systemone({"type": "box", "instructions": "?"}), "q"),
    *[(f"{count} options", systemone(noul_choice(count)), "criteria") for count in (0, 1, 256)],
    *[(f"{count} levels", systemone(noul_score(count)), "criteria") for count in (1, 11)],
    ("instructions are a number", systemone({"type": "noul", "instructions": 5}), "instructions"),
]
BAD_DECISIONS: list[tuple[str, dict[str, Any], str]] = [
    ("no input", {"model": "", "questions": [PREDICATE]}, "input"),
    ("null input", decisions(input=None), "input"),
    ("no questions", decisions(questions=[]), "questions"),
    ("401 questions", decisions(questions=[PREDICATE] * 401), "questions"),
    ("unknown type", decisions(NOUL), "questions[0]"),
    ("no options", decisions(choice()), "questions[0].choices"),
    ("one option", decisions(choice("a")), "questions[0].choices"),
    ("256 options", decisions(choice(*map(str, range(256)))), "questions[0].choices"),
    ("equal options", decisions(choice("a", "a")), "questions[0].choices[1].value"),
    *[(f"{count} levels", decisions(score(count)), "questions[0].levels") for count in (1, 11)],
    ("instructions are an object", decisions({**PREDICATE, "instructions": {}}), "questions[0].instructions"),
]


@pytest.mark.parametrize(("body", "step"), [b[1:] for b in BAD_SYSTEMONE], ids=[b[0] for b in BAD_SYSTEMONE])
def test_bad_requests_of_system_one(http: httpx.Client, body: dict[str, Any], step: str) -> None:
    reply = http.post("/v1/systemone", json=body)
    assert reply.status_code == 422, reply.text
    loc = reply.json()["detail"][0]["loc"]
    assert loc[0] == "body"
    assert step in loc


@pytest.mark.parametrize(("body", "param"), [b[1:] for b in BAD_DECISIONS], ids=[b[0] for b in BAD_DECISIONS])
def test_bad_requests_of_decisions(http: httpx.Client, body: dict[str, Any], param: str) -> None:
    reply = http.post("/v1/decisions", json=body)
    assert reply.status_code == 400, reply.text
    assert set(reply.json()) == {"error"}
    assert reply.json()["error"]["param"].startswith(param)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'"x"',
        b"{} x",
        b"\xff\xfe",
        b'{"state": NaN, "questions": {"q": {"type": "noul", "instructions": "?"}}}',
        b'{"state": {"x": 1e999}, "questions": {"q": {"type": "noul", "instructions": "?"}}}',
        b'{"state": "\\ud83d", "questions": {"q": {"type": "noul", "instructions": "?"}}}',
        b'{"state": "s", "questions": {"q": {"type": "noul", "instructions": "?"}, "q": {"type": "noul"}}}',
        b'{"state": ' + b"[" * 1500 + b"]" * 1500 + b"}",
    ],
    ids=lambda body: body[:24].decode(errors="replace"),
)
def test_bodies_that_are_no_request(http: httpx.Client, body: bytes) -> None:
    reply = http.post("/v1/systemone", content=body)
    assert reply.status_code == 422
    assert isinstance(reply.json()["detail"], list)
    reply = http.post("/v1/decisions", content=body)
    assert reply.status_code == 400
    assert reply.json()["error"]["type"] == "invalid_request_error"


def test_repeated_keys_within_a_state_are_evidence(http: httpx.Client) -> None:
    body = '{"state": {"a": 1, "a": 2}, "questions": {"q": {"type": "noul", "instructions": "Is a 1?"}}}'
    assert http.post("/v1/systemone", content=body).status_code == 200


def test_a_prompt_beyond_the_context(pair: Pair, http: httpx.Client) -> None:
    state = "word " * 9000
    reply = http.post("/v1/systemone", json=systemone(state=state))
    assert reply.status_code == 400
    assert reply.json()["detail"]["error_type"] == "max_tokens_exceeded"
    assert "8192" in reply.json()["detail"]["message"]
    reply = http.post("/v1/decisions", json=decisions(input=state))
    assert reply.status_code == 400
    assert "8192" in reply.json()["error"]["message"]
    with Client(pair.grpc) as client, pytest.raises(dicast.InvalidRequest) as caught:
        client.decide(state, {"q": Predicate("Is it?")})
    assert caught.value.reason == "CONTEXT_EXCEEDED"
    assert caught.value.metadata["limit"] == "8192"


def test_an_unknown_model(pair: Pair, http: httpx.Client) -> None:
    reply = http.post("/v1/systemone", json=systemone(model="nope"))
    assert (reply.status_code, reply.json()["detail"]["error_type"]) == (400, "api_usage_error")
    reply = http.post("/v1/decisions", json=decisions(model="nope"))
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "model_not_found")
    with Client(pair.grpc) as client, pytest.raises(dicast.NotFound) as caught:
        client.decide("s", {"q": Predicate("Is it?")}, model="nope")
    assert caught.value.code is grpc.StatusCode.NOT_FOUND


def test_probes(http: httpx.Client) -> None:
    assert http.get("/livez").status_code == http.get("/healthz").status_code == 200
    assert http.get("/readyz").json()["status"] == "ready"
    assert http.get("/v1/systemone").status_code == 405
    assert http.get("/nope").status_code == 404
