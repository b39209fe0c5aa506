"""What becomes of a question whose condition did not hold: null or a refusal, and why."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from gateway.eventstream import EVENTS, told
from gateway.served import ScriptedServer, answering

from dicast.v1 import decision_pb2 as pb

WAS: list[tuple[pb.AnswerValue | None, Any]] = [
    (pb.AnswerValue(bool_value=False), False),
    (pb.AnswerValue(string_value=""), ""),
    (pb.AnswerValue(level=0), 0),
    (None, None),
]


@pytest.mark.parametrize(("was", "shown"), WAS)
@pytest.mark.parametrize("detail", ["none", "full"])
def test_a_skipped_question_says_why(
    http: httpx.Client, server: ScriptedServer, *, was: pb.AnswerValue | None, shown: Any, detail: str
) -> None:
    """Null alone does not tell a question that was skipped from one that failed."""
    noul = pb.Answer(predicate=pb.PredicateAnswer(probability=0.25))
    more = {"x_dicast": {"detail": detail}}

    def script(because: str) -> Any:
        return answering(noul, pb.Answer(skipped=pb.SkippedAnswer(because=because, was=was)))

    questions = {key: {"type": "noul", "instructions": "?"} for key in ("a", "b")}
    server.script = script("a")
    body = {"state": "s", "questions": questions, **more}
    reply = http.post("/v1/systemone", json=body).json()
    assert list(reply["answers"]) == ["a", "b"]
    assert reply["answers"]["b"] is None
    assert reply["x_dicast"] == {"skipped": {"b": {"because": "a", "was": shown}}}
    events = told(http.post("/v1/systemone", json=body, headers=EVENTS))
    assert events.all("answer")[1] == {"id": "b", "answer": None}
    assert events.all("done")[0]["x_dicast"] == reply["x_dicast"]

    server.script = script("0")
    asked = {"type": "predicate", "instructions": "?"}
    named, unnamed = {**asked, "name": "a"}, asked
    for decider, because in ((named, "a"), (unnamed, 0)):
        other = {"input": "s", "questions": [decider, {**asked, "name": "b"}], **more}
        answer = http.post("/v1/decisions", json=other).json()["answers"][1]
        told_why = {"skipped": {"because": because, "was": shown}}
        assert answer == {"type": "refusal", "name": "b", "x_dicast": told_why}
        events = told(http.post("/v1/decisions", json=other, headers=EVENTS))
        assert events.all("answer")[1] == {"index": 1, **answer}


def test_skipped_and_refused_side_by_side(http: httpx.Client, server: ScriptedServer) -> None:
    abstained = pb.RefusedAnswer(reason=pb.RefusedAnswer.REASON_ABSTAINED, message="no")
    server.script = answering(pb.Answer(refused=abstained), pb.Answer(skipped=pb.SkippedAnswer(because="a")))
    questions = {key: {"type": "noul", "instructions": "?"} for key in ("a", "b")}
    body = {"state": "s", "questions": questions, "x_dicast": {"partial": True}}
    reply = http.post("/v1/systemone", json=body).json()
    assert reply["answers"] == {"b": None}
    assert reply["x_dicast"] == {
        "refused": {"a": {"reason": "REASON_ABSTAINED", "message": "no"}},
        "skipped": {"b": {"because": "a", "was": None}},
    }
