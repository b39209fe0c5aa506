"""/v1/decisions: what arrives in protobuf, and what comes back as JSON."""

from __future__ import annotations

import json
from typing import Any

import httpx
from gateway.served import ScriptedServer, answering
from google.protobuf import text_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb

RICH = """
{
  "model": "m", "prompt_cache_key": "salt", "prompt_cache_options": {"mode": "explicit", "ttl": "30m"},
  "safety_identifier": "u1",
  "input": [
    {"role": "system", "content": "be brief"},
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "d"}]},
    {"role": "user", "content": [
      {"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}},
      {"type": "input_text", "text": "", "prompt_cache_breakpoint": null},
      {"type": "input_json", "data": {"b": 1.0, "a": 1152921504606846976, "b": null}},
      {"type": "input_json", "data": [{"x": 1}, {}]}]},
    {"role": "assistant", "content": "ok", "phase": "commentary"},
    {"role": "assistant", "phase": null, "content": [
      {"type": "output_text", "text": "t"}, {"type": "refusal", "refusal": "no"}]},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "id": "i", "namespace": "n",
     "status": "completed"},
    {"type": "function_call_output", "call_id": "c1", "output": "42", "status": null},
    {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "text"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "o"}]}
  ],
  "questions": [
    {"type": "predicate", "instructions": "late?", "name": ""},
    {"type": "predicate", "instructions": [
      {"type": "input_text", "text": "t"}, {"type": "input_json", "data": {"k": 1.50}}]},
    {"type": "choice", "instructions": "which", "name": "c",
     "choices": [{"value": "true"}, {"value": true, "description": ""},
                 {"value": false, "description": "no"}]},
    {"type": "score", "instructions": "how", "name": "c",
     "levels": [{"label": ""}, {"label": "hi", "description": "very"}]}
  ]
}
"""

RICH_PROTO = r"""
model: "m"
end_user: "u1"
options { cache_salt: "salt" }
state { items {
  items { message { role: ROLE_SYSTEM content { text: "be brief" } } }
  items { message { role: ROLE_DEVELOPER content { parts { parts { text: "d" } } } } }
  items { message { role: ROLE_USER content { parts {
    parts { text: "a" cache_breakpoint: true }
    parts { text: "" }
    parts { json: "{\"b\":1.0,\"a\":1152921504606846976,\"b\":null}" }
    parts { json: "[{\"x\":1},{}]" } } } } }
  items { message { role: ROLE_ASSISTANT content { text: "ok" } phase: "commentary" } }
  items { message { role: ROLE_ASSISTANT content { parts { parts { text: "t" } parts { refusal: "no" } } } } }
  items { call { call_id: "c1" name: "f" arguments: "{}" id: "i" namespace: "n" status: "completed" } }
  items { result { call_id: "c1" output { text: "42" } } }
  items { call { call_id: "c2" name: "g" text: "text" } }
  items { result { call_id: "c2" output { parts { parts { text: "o" } } } } }
} }
questions { key: "0" name: "" instructions { text: "late?" } predicate {} }
questions {
  key: "1" instructions { parts { parts { text: "t" } parts { json: "{\"k\":1.50}" } } } predicate {}
}
questions {
  key: "2" name: "c" instructions { text: "which" }
  choice {
    options { value { string_value: "true" } }
    options { value { bool_value: true } description { text: "" } }
    options { value { bool_value: false } description { text: "no" } }
  }
}
questions {
  key: "3" name: "c" instructions { text: "how" }
  score { levels { label: "" } levels { label: "hi" description { text: "very" } } }
}
"""


def test_a_rich_request_as_protobuf(http: httpx.Client, server: ScriptedServer) -> None:
    reply = http.post("/v1/decisions", content=RICH)
    assert reply.status_code == 200, reply.text
    assert server.requests == [text_format.Parse(RICH_PROTO, service_pb.DecideRequest())]
    assert [answer["name"] for answer in reply.json()["answers"]] == ["", None, "c", "c"]


def test_a_bare_string_is_the_state(http: httpx.Client, server: ScriptedServer) -> None:
    body = {"input": "", "questions": [{"type": "predicate", "instructions": "?"}]}
    assert http.post("/v1/decisions", json=body).status_code == 200
    assert server.requests[0].state.WhichOneof("kind") == "text"
    assert server.requests[0].model == ""
    assert not server.requests[0].HasField("options")


def test_unnamed_and_repeated_names(http: httpx.Client) -> None:
    asked: list[dict[str, str]] = [{}, {"name": "x"}, {"name": "x"}, {}]
    questions = [{"type": "predicate", "instructions": "?", **name} for name in asked]
    answers = http.post("/v1/decisions", json={"input": "s", "questions": questions}).json()["answers"]
    assert [answer["name"] for answer in answers] == [None, "x", "x", None]


def test_zeros_integers_and_types_are_printed(http: httpx.Client, server: ScriptedServer) -> None:
    server.script = answering(
        pb.Answer(predicate=pb.PredicateAnswer()),
        pb.Answer(
            choice=pb.ChoiceAnswer(
                value=pb.OptionValue(bool_value=False),
                probabilities=[
                    pb.OptionProbability(value=pb.OptionValue(bool_value=False)),
                    pb.OptionProbability(value=pb.OptionValue(string_value="")),
                ],
            )
        ),
        pb.Answer(score=pb.ScoreAnswer(probabilities=[pb.LevelProbability(level=0, label="")])),
        pb.Answer(skipped=pb.SkippedAnswer(because="0")),
        pb.Answer(refused=pb.RefusedAnswer(message="no")),
        usage=pb.Usage(input_tokens=2**40, cached_tokens=0),
    )
    body = {
        "input": "x",
        "questions": [
            {"type": "predicate", "instructions": "?"},
            {"type": "choice", "instructions": "?", "choices": [{"value": False}, {"value": ""}]},
            {"type": "score", "instructions": "?", "levels": [{"label": ""}]},
            {"type": "predicate", "instructions": "?", "name": "s"},
            {"type": "predicate", "instructions": "?"},
        ],
    }
    reply = http.post("/v1/decisions", json=body)
    assert reply.text == (
        '{"model": "smollm2-135m-instruct", "answers": ['
        '{"type": "predicate", "name": null, "probability": 0.0}, '
        '{"type": "choice", "name": null, "choice": false, "confidence": 0.0, "probabilities": '
        '[{"value": false, "probability": 0.0}, {"value": "", "probability": 0.0}]}, '
        '{"type": "score", "name": null, "score": 0.0, "confidence": 0.0, "probabilities": '
        '[{"value": 0, "label": "", "probability": 0.0}]}, '
        '{"type": "refusal", "name": "s", "x_dicast": {"skipped": {"because": 0, "was": null}}}, '
        '{"type": "refusal", "name": null}], '
        '"usage": {"input_tokens": 1099511627776, '
        '"input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}, '
        '"output_tokens": 0, "output_tokens_details": {"reasoning_tokens": 0}, '
        '"total_tokens": 1099511627776}}'
    )


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), _TEXTS
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXTS, inner, max_size=3)),
)
_OBJECTS = st.dictionaries(_TEXTS, _VALUES, max_size=3)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.one_of(_OBJECTS, st.lists(_OBJECTS, max_size=3)),
    text=_TEXTS,
    value=st.one_of(_TEXTS, st.booleans()),
)
def test_any_json_part_arrives_as_it_was_written(
    http: httpx.Client, server: ScriptedServer, data: Any, text: str, value: str | bool
) -> None:
    server.reset()
    part = {"type": "input_json", "data": data}
    question = {"type": "choice", "instructions": [part], "choices": [{"value": value, "description": text}]}
    body = {"input": [{"role": "user", "content": [part]}], "questions": [question]}
    reply = http.post("/v1/decisions", content=json.dumps(body))
    assert reply.status_code == 200, reply.text
    request = server.requests[0]
    wanted = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    assert request.state.items.items[0].message.content.parts.parts[0].json == wanted
    assert request.questions[0].instructions.parts.parts[0].json == wanted
    assert request.questions[0].choice.options[0].description.text == text
    answer = reply.json()["answers"][0]["choice"]
    assert (type(answer), answer) == (type(value), value)
