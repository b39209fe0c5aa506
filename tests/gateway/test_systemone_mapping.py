"""/v1/systemone: what arrives in protobuf, and what comes back as JSON."""

from __future__ import annotations

import json
import struct
from typing import Any

import httpx
from gateway.served import ScriptedServer, answering
from google.protobuf import text_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dicast import jsontext
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb

RICH = """
{
  "model": "jev-latest", "x_trace_id": 7, "seed": 7,
  "state": {"zeta": 1.0, "alpha": {"k": [true, null, "é"]}, "big": 1152921504606846976, "zeta": 1e2},
  "questions": {
    "is it?": {"type": "noul", "instructions": null, "criteria": {"false": null, "true": ["x", 1.50]}},
    "q[0].key": {"type": "noul", "criteria": {}},
    "__proto__": {"type": "choice", "instructions": {"task": "route"},
                  "criteria": {"b": null, "10": "", "2": {"why": "z"}, "": ["q"], "type": "t"}},
    "🎯": {"type": "score", "instructions": "", "criteria": ["lo", {"hi": 1.0}, null, ["x"]]}
  }
}
"""

RICH_PROTO = r"""
model: "jev-latest"
state {
  json: "{\"zeta\":1.0,\"alpha\":{\"k\":[true,null,\"é\"]},"
    "\"big\":1152921504606846976,\"zeta\":1e2}"
}
questions {
  key: "is it?"
  instructions { json: "null" }
  predicate { when_true { json: "[\"x\",1.50]" } when_false { json: "null" } }
}
questions { key: "q[0].key" predicate {} }
questions {
  key: "__proto__"
  instructions { json: "{\"task\":\"route\"}" }
  choice {
    options { value { string_value: "b" } description { json: "null" } }
    options { value { string_value: "10" } description { text: "" } }
    options { value { string_value: "2" } description { json: "{\"why\":\"z\"}" } }
    options { value { string_value: "" } description { json: "[\"q\"]" } }
    options { value { string_value: "type" } description { text: "t" } }
  }
}
questions {
  key: "🎯"
  instructions { text: "" }
  score {
    levels { description { text: "lo" } }
    levels { description { json: "{\"hi\":1.0}" } }
    levels { description { json: "null" } }
    levels { description { json: "[\"x\"]" } }
  }
}
options { seed: 7 }
"""

shared_client = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
structures = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3))
)
contents = st.one_of(texts, st.lists(structures, max_size=3), st.dictionaries(texts, structures, max_size=3))


def test_a_rich_request_as_protobuf(http: httpx.Client, server: ScriptedServer) -> None:
    reply = http.post("/v1/systemone", content=RICH)
    assert reply.status_code == 200, reply.text
    wanted = text_format.Parse(RICH_PROTO, service_pb.DecideRequest(), allow_unknown_extension=False)
    assert server.requests == [wanted]
    answers = reply.json()["answers"]
    assert list(answers) == ["is it?", "q[0].key", "__proto__", "🎯"]
    assert list(answers["__proto__"]["probabilities"]) == ["b", "10", "2", "", "type"]
    assert answers["🎯"]["legend"] == {"0": "lo", "1": {"hi": 1.0}, "2": "", "3": ["x"]}
    assert '"1": {"hi": 1.0}' in reply.text


def test_absent_fields_stay_absent(http: httpx.Client, server: ScriptedServer) -> None:
    body = {"state": "", "questions": {"q": {"type": "noul", "criteria": None}}}
    assert http.post("/v1/systemone", json=body).status_code == 200
    request = server.requests[0]
    assert request.model == ""
    assert request.state.WhichOneof("kind") == "text"
    question = request.questions[0]
    assert not question.HasField("instructions")
    assert not question.HasField("name")
    assert question.HasField("predicate")
    assert not question.predicate.HasField("when_true")
    assert not question.predicate.HasField("when_false")
    assert not request.HasField("options")


def test_a_one_sided_noul(http: httpx.Client, server: ScriptedServer) -> None:
    body = {"state": "x", "questions": {"q": {"type": "noul", "criteria": {"true": "late"}}}}
    assert http.post("/v1/systemone", json=body).status_code == 200
    predicate = server.requests[0].questions[0].predicate
    assert predicate.when_true.text == "late"
    assert not predicate.HasField("when_false")


def test_empty_states_are_states(http: httpx.Client, server: ScriptedServer) -> None:
    states: list[Any] = ["", {}, []]
    for state in states:
        body = {"state": state, "questions": {"q": {"type": "noul", "instructions": "?"}}}
        assert http.post("/v1/systemone", json=body).status_code == 200
    assert [request.state.WhichOneof("kind") for request in server.requests] == ["text", "json", "json"]


def test_names_come_back_byte_for_byte(http: httpx.Client) -> None:
    # The same word twice: composed, and with a combining accent.
    names = ["질문", "🎯", "é", "e\u0301", "a b", "q.2", "0"]
    body = {
        "state": "x",
        "questions": {name: {"type": "choice", "criteria": dict.fromkeys(names)} for name in names},
    }
    answers = http.post("/v1/systemone", json=body).json()["answers"]
    assert list(answers) == names
    assert all(list(answer["probabilities"]) == names for answer in answers.values())


@shared_client
@given(
    key=texts,
    state=contents,
    instructions=st.one_of(st.none(), contents),
    options=st.dictionaries(texts, st.one_of(st.none(), contents), min_size=1, max_size=4),
)
def test_any_content_arrives_as_it_was_written(
    http: httpx.Client,
    server: ScriptedServer,
    *,
    key: str,
    state: Any,
    instructions: Any,
    options: dict[str, Any],
) -> None:
    server.reset()
    questions = {
        key: {"type": "choice", "instructions": instructions, "criteria": options},
        key + "'": {"type": "score", "criteria": list(options.values())},
    }
    reply = http.post("/v1/systemone", content=json.dumps({"state": state, "questions": questions}))
    assert reply.status_code == 200, reply.text
    request = server.requests[0]
    assert _read(request.state) == _as_text(state)
    assert _read(request.questions[0].instructions) == _as_text(instructions)
    choice, score = request.questions
    assert [choice.key, score.key] == list(questions) == list(reply.json()["answers"])
    assert [option.value.string_value for option in choice.choice.options] == list(options)
    wanted = [_as_text(description) for description in options.values()]
    assert [_read(option.description) for option in choice.choice.options] == wanted
    assert [_read(level.description) for level in score.score.levels] == wanted
    answers: Any = jsontext.parse(reply.content)
    legend = answers["answers"][score.key]["legend"]
    assert [jsontext.render(value, ",", ":") for value in legend.values()] == [
        '""' if description is None else _as_text(description) for description in options.values()
    ]


@shared_client
@given(values=st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_doubles_come_back_bit_for_bit(
    http: httpx.Client, server: ScriptedServer, values: list[float]
) -> None:
    noul, confidence, first, second = values
    server.script = answering(
        pb.Answer(predicate=pb.PredicateAnswer(probability=noul)),
        pb.Answer(
            choice=pb.ChoiceAnswer(
                value=pb.OptionValue(string_value="a"),
                confidence=confidence,
                probabilities=[
                    pb.OptionProbability(value=pb.OptionValue(string_value="a"), probability=first),
                    pb.OptionProbability(value=pb.OptionValue(string_value="b"), probability=second),
                ],
            )
        ),
    )
    body = {
        "state": "x",
        "questions": {"n": {"type": "noul"}, "c": {"type": "choice", "criteria": {"a": None, "b": None}}},
    }
    answers = http.post("/v1/systemone", json=body).json()["answers"]
    choice = answers["c"]
    read = [answers["n"]["noul"], choice["confidence"], *choice["probabilities"].values()]
    assert [struct.pack("<d", value) for value in read] == [struct.pack("<d", value) for value in values]


def test_the_documented_fields_and_no_others(http: httpx.Client, server: ScriptedServer) -> None:
    server.script = answering(
        pb.Answer(predicate=pb.PredicateAnswer()),
        pb.Answer(
            choice=pb.ChoiceAnswer(
                value=pb.OptionValue(string_value="a"),
                probabilities=[
                    pb.OptionProbability(value=pb.OptionValue(string_value="a")),
                    pb.OptionProbability(value=pb.OptionValue(string_value="b")),
                ],
            ),
            diagnostics=pb.Diagnostics(readout="letters"),
        ),
        pb.Answer(
            score=pb.ScoreAnswer(
                probabilities=[pb.LevelProbability(level=0), pb.LevelProbability(level=1)],
            )
        ),
        usage=pb.Usage(input_tokens=2**40),
    )
    body = {
        "state": "x",
        "questions": {
            "n": {"type": "noul"},
            "c": {"type": "choice", "criteria": {"a": None, "b": None}},
            "s": {"type": "score", "criteria": ["lo", "hi"]},
        },
    }
    reply = http.post("/v1/systemone", json=body)
    assert reply.headers["content-type"] == "application/json"
    # Zeros are printed, floats as floats, counters as integers, in the order of the live service.
    assert reply.text == (
        '{"model": "smollm2-135m-instruct", "answers": {"n": {"type": "noul", "noul": 0.0}, '
        '"c": {"type": "choice", "choice": "a", "confidence": 0.0, "probabilities": {"a": 0.0, "b": 0.0}}, '
        '"s": {"type": "score", "score": 0.0, "confidence": 0.0, "legend": {"0": "lo", "1": "hi"}, '
        '"probabilities": {"0": 0.0, "1": 0.0}}}, '
        '"usage": {"input_tokens": 1099511627776, "output_tokens": 0}}'
    )


def test_a_refused_question_fails_the_request(http: httpx.Client, server: ScriptedServer) -> None:
    server.script = answering(
        pb.Answer(predicate=pb.PredicateAnswer(probability=1)),
        pb.Answer(refused=pb.RefusedAnswer(message="too uncertain")),
    )
    body = {"state": "x", "questions": {"a": {"type": "noul"}, "b": {"type": "noul"}}}
    reply = http.post("/v1/systemone", json=body)
    assert reply.status_code == 400
    assert reply.json() == {"detail": {"error_type": "refused", "message": "questions.b: too uncertain"}}


def test_a_refused_question_is_left_out_where_the_caller_takes_what_there_is(
    http: httpx.Client, server: ScriptedServer
) -> None:
    abstained = pb.RefusedAnswer(reason=pb.RefusedAnswer.REASON_ABSTAINED, message="too uncertain")
    server.script = answering(
        pb.Answer(refused=abstained), pb.Answer(predicate=pb.PredicateAnswer(probability=1))
    )
    body = {"state": "x", "questions": {"a": {"type": "noul"}, "b": {"type": "noul"}}}
    reply = http.post("/v1/systemone", json={**body, "x_dicast": {"partial": True}})
    assert reply.status_code == 200
    assert reply.json()["answers"] == {"b": {"type": "noul", "noul": 1.0}}
    left_out = {"a": {"reason": "REASON_ABSTAINED", "message": "too uncertain"}}
    assert reply.json()["x_dicast"] == {"refused": left_out}
    assert http.post("/v1/systemone", json={**body, "x_dicast": {"partial": False}}).status_code == 400
    server.script = answering(*[pb.Answer(predicate=pb.PredicateAnswer(probability=1))] * 2)
    whole = http.post("/v1/systemone", json={**body, "x_dicast": {"partial": True}}).json()
    assert list(whole) == ["model", "answers", "usage"]


def _read(content: pb.Content | pb.State) -> str:
    if content.WhichOneof("kind") == "text":
        return json.dumps(content.text, ensure_ascii=False)
    return content.json


def _as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
