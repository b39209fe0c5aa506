"""Questions of plugins' types: their own fields pass through both routes untouched."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from gateway.eventstream import EVENTS, told
from gateway.served import ScriptedServer, answering
from google.protobuf import text_format

from dicast.v1 import decision_pb2 as pb

OWN = '"items": ["b", 1.50, {"z": null, "a": 12345678901234567890}], "é": "", "depends_on": []'
WANTED = r"""
instructions { text: "?" }
readout { extension { name: "x_digits" json: "{}" } }
ask_if { key: "%s" any_of { bool_value: true } }
extension {
  type: "x_rank"
  json: '{"items":["b",1.50,{"z":null,"a":12345678901234567890}],"é":"","depends_on":[]}'
}
"""
OURS = '"instructions": "?", "ask_if": {"p": ["yes"]}, "x_dicast": {"readout": {"x_digits": {}}}'


def test_own_fields_arrive_as_they_were_written(http: httpx.Client, server: ScriptedServer) -> None:
    noul = '"p": {"type": "noul", "instructions": "?"}'
    body = f'{{"state": "s", "questions": {{"q": {{{OURS}, "type": "x_rank", {OWN}}}, {noul}}}}}'
    reply = http.post("/v1/systemone", content=body.encode())
    assert reply.status_code == 200, reply.text
    wanted = text_format.Parse(f'key: "q" {WANTED % "p"}', pb.Question())
    assert server.requests[0].questions[0] == wanted

    predicate = '{"type": "predicate", "instructions": "?", "name": "p"}'
    body = f'{{"input": "s", "questions": [{{"name": "n", {OURS}, "type": "x_rank", {OWN}}}, {predicate}]}}'
    reply = http.post("/v1/decisions", content=body.encode())
    assert reply.status_code == 200, reply.text
    wanted = text_format.Parse(f'key: "0" name: "n" {WANTED % "1"}', pb.Question())
    assert server.requests[1].questions[0] == wanted


def test_more_own_fields_than_faults_are_told(http: httpx.Client, server: ScriptedServer) -> None:
    """Unknown fields of other questions are read no further than there are faults to tell."""
    own = {f"field {place}": place for place in range(60)}
    question = {"type": "x_rank", **own}
    for route, body in both_bodies(question):
        assert http.post(route, json=body).status_code == 200
    for request in server.requests:
        assert request.questions[0].extension.json.count("field ") == 60


def both_bodies(question: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("/v1/systemone", {"state": "s", "questions": {"q": question}}),
        ("/v1/decisions", {"input": "s", "questions": [question]}),
    ]


@pytest.mark.parametrize(
    ("json", "fields"),
    [
        ('{"order": ["b", "a"], "p": 1.50}', {"order": ["b", "a"], "p": 1.5}),
        ("{}", {}),
        ("[1, 2]", {"value": [1, 2]}),
        ("null", {"value": None}),
        # These would hide what every answer says.
        ('{"type": "x", "p": 1}', {"value": {"type": "x", "p": 1}}),
        ('{"name": null}', {"value": {"name": None}}),
        ('{"index": 7}', {"value": {"index": 7}}),
        ('{"x_dicast": {}}', {"value": {"x_dicast": {}}}),
    ],
)
def test_an_answer_has_the_fields_of_the_plugin(
    http: httpx.Client, server: ScriptedServer, json: str, fields: dict[str, Any]
) -> None:
    server.script = answering(pb.Answer(extension=pb.Extension(name="x_rank", json=json)))
    (systemone, body), (decisions, other) = both_bodies({"type": "x_rank"})
    reply = http.post(systemone, json=body)
    assert reply.json()["answers"]["q"] == {"type": "x_rank", **fields}
    if "1.50" in json:
        assert '"p": 1.50' in reply.text
    (event,) = told(http.post(systemone, json=body, headers=EVENTS)).all("answer")
    assert event == {"id": "q", "answer": {"type": "x_rank", **fields}}
    answer = {"type": "x_rank", "name": None, **fields}
    assert http.post(decisions, json=other).json()["answers"] == [answer]
    (event,) = told(http.post(decisions, json=other, headers=EVENTS)).all("answer")
    assert event == {"index": 0, **answer}


def test_diagnostics_stand_beside_it(http: httpx.Client, server: ScriptedServer) -> None:
    server.script = answering(
        pb.Answer(
            extension=pb.Extension(name="x_rank", json="{}"),
            diagnostics=pb.Diagnostics(readout="x_digits", tokens=9),
        )
    )
    for route, body in both_bodies({"type": "x_rank"}):
        answers = http.post(route, json={**body, "x_dicast": {"detail": "basic"}}).json()["answers"]
        (answer,) = answers.values() if isinstance(answers, dict) else answers
        assert answer["x_dicast"]["diagnostics"]["readout"] == "x_digits"
        assert answer["x_dicast"]["diagnostics"]["tokens"] == 9


@pytest.mark.parametrize(
    ("fields", "loc", "param"),
    [
        ({"instructions": 5}, ["instructions"], "instructions"),
        ({"ask_if": []}, ["ask_if"], "ask_if"),
        ({"x_dicast": {"orders": 2}}, ["x_dicast", "orders"], "x_dicast.orders"),
    ],
)
def test_fields_of_every_question_are_checked(
    http: httpx.Client, server: ScriptedServer, fields: dict[str, Any], loc: list[str], param: str
) -> None:
    (systemone, body), (decisions, other) = both_bodies({"type": "x_rank", **fields})
    reply = http.post(systemone, json=body)
    assert reply.status_code == 422
    assert reply.json()["detail"][0]["loc"] == ["body", "questions", "q", "x_rank", *loc]
    reply = http.post(decisions, json=other)
    assert reply.json()["error"]["param"] == f"questions[0].{param}"
    assert not server.requests


def test_a_name_is_none_of_system_one(http: httpx.Client) -> None:
    (systemone, body), _ = both_bodies({"type": "x_rank", "name": "n"})
    reply = http.post(systemone, json=body)
    assert reply.status_code == 400
    message = "questions.q.x_rank.name: is of /v1/decisions: here a question has its id"
    assert reply.json()["detail"]["message"] == message


@pytest.mark.parametrize("type_", ["rank", "X_rank", "x", ""])
def test_other_types_are_unknown(http: httpx.Client, type_: str) -> None:
    (systemone, body), (decisions, other) = both_bodies({"type": type_})
    reply = http.post(systemone, json=body)
    assert reply.status_code == 422
    assert "'noul', 'choice', 'score'" in reply.json()["detail"][0]["msg"]
    assert reply.json()["detail"][0]["loc"] == ["body", "questions", "q"]
    reply = http.post(decisions, json=other)
    assert "a question of type predicate, choice or score" in reply.json()["error"]["message"]
    assert reply.json()["error"]["param"] == "questions[0]"


def test_an_abstention_tells_the_answer_as_the_question_was_read(
    http: httpx.Client, server: ScriptedServer
) -> None:
    score = pb.ScoreAnswer(score=0.5, confidence=0.0, probabilities=[pb.LevelProbability(probability=1.0)])
    refused = pb.RefusedAnswer(reason=pb.RefusedAnswer.REASON_ABSTAINED, message="no", score=score)
    server.script = answering(pb.Answer(refused=refused))
    (route, body), (other, body_of_other) = both_bodies({"type": "x_rank"})
    reply = http.post(route, json={**body, "x_dicast": {"partial": True}}).json()
    would_be = reply["x_dicast"]["refused"]["q"]["would_be"]
    assert (would_be["type"], would_be["score"], would_be["legend"]) == ("score", 0.5, {})
    (answer,) = http.post(other, json=body_of_other).json()["answers"]
    assert answer["type"] == "refusal"
    assert answer["x_dicast"]["refused"]["would_be"]["score"] == 0.5
