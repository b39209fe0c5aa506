"""What went wrong between JSON and protobuf elsewhere: nulls, zeros, NaN, surrogates, depth, double keys."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
from gateway.served import ScriptedServer, answering
from gateway.tiny import Tiny
from google.protobuf.message import Message

from dicast import Json, Predicate
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import model_service_pb2 as model_pb
from dicast_gateway.protojson import to_json

NOUL = '{"type": "noul", "instructions": "?"}'
PREDICATE = '{"type": "predicate", "instructions": "?"}'
SURROGATE = r"\ud83d"
ROUTES = pytest.mark.parametrize("route", ["/v1/systemone", "/v1/decisions"])


def systemone(question: str = NOUL, state: str = '"s"', more: str = "") -> str:
    return f'{{"state": {state}, "questions": {{"q": {question}}}{more}}}'


def decisions(question: str = PREDICATE, evidence: str = '"s"', more: str = "") -> str:
    return f'{{"input": {evidence}, "questions": [{question}]{more}}}'


def part(data: str) -> str:
    return f'[{{"role": "user", "content": [{{"type": "input_json", "data": {data}}}]}}]'


def body_of(route: str, more: str) -> str:
    return systemone(more=more) if route == "/v1/systemone" else decisions(more=more)


def path_of(reply: httpx.Response, route: str) -> str:
    """The path of the first fault, written alike for both dialects."""
    assert reply.headers["content-type"] == "application/json"
    if route == "/v1/systemone":
        assert reply.status_code == 422, reply.text
        return ".".join(str(step) for step in reply.json()["detail"][0]["loc"][1:])
    assert reply.status_code == 400, reply.text
    return str(reply.json()["error"]["param"])


@ROUTES
@pytest.mark.parametrize(
    "more",
    [
        ', "extra": {"calibration_temperature": null, "seed": null, "detail": null}',
        ', "samples": null, "seed": null, "extra": null',
        ', "x_dicast": {"temperature": null, "orders": null, "abstain": null, "isolated": null}',
    ],
)
def test_null_is_no_zero(http: httpx.Client, server: ScriptedServer, route: str, more: str) -> None:
    """A null that stood for a number arrived as 0, which is a temperature of its own."""
    assert http.post(route, content=body_of(route, more)).status_code == 200
    assert not server.requests[0].HasField("options")


@ROUTES
@pytest.mark.parametrize("field", ["min_confidence", "min_option_mass"])
def test_null_where_a_number_must_stand_is_refused(
    http: httpx.Client, server: ScriptedServer, route: str, field: str
) -> None:
    reply = http.post(route, content=body_of(route, f', "x_dicast": {{"abstain": {{"{field}": null}}}}'))
    assert path_of(reply, route) == f"x_dicast.abstain.{field}"
    assert not server.requests


def test_zeros_and_first_values_are_printed(http: httpx.Client, server: ScriptedServer) -> None:
    """A field of value 0 was left out of the JSON, so that clients found no number where they look."""
    server.script = answering(pb.Answer(predicate=pb.PredicateAnswer()), usage=pb.Usage())
    reply = http.post("/v1/systemone", content=systemone(more=', "x_dicast": {"detail": "basic"}'))
    assert '"noul": 0.0' in reply.text
    assert reply.json()["usage"] == {"input_tokens": 0, "output_tokens": 0}
    diagnostics = reply.json()["answers"]["q"]["x_dicast"]["diagnostics"]
    assert list(diagnostics) == [field.name for field in pb.Diagnostics.DESCRIPTOR.fields]
    assert (diagnostics["forwards"], diagnostics["order_spread"]) == (0, 0.0)
    usage = http.post("/v1/decisions", content=decisions()).json()["usage"]
    assert usage["input_tokens_details"]["cached_tokens"] == usage["output_tokens"] == 0


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (pb.Usage(input_tokens=2**53 + 1), '{"input_tokens": 9007199254740993, "cached_tokens": 0'),
        (model_pb.Limits(message_bytes=2**63), '"message_bytes": 9223372036854775808'),
        (
            pb.PassScores(options=[0], scores=[0.1 + 0.2]),
            '{"options": [0], "scores": [0.30000000000000004], ',
        ),
        (pb.PassScores(scores=[math.nan, -math.inf]), '{"options": [], "scores": [null, null], '),
    ],
    ids=["counter", "unsigned", "double", "no number"],
)
def test_numbers_stay_numbers(message: Message, shown: str) -> None:
    """Protobuf's own mapping to JSON made strings of wide integers and of NaN."""
    assert shown in json.dumps(to_json(message))


@pytest.fixture
def not_finite(tiny: Tiny) -> Iterator[Tiny]:
    """An engine whose scores are no numbers."""
    tiny.forwards.spoil = lambda found: replace(
        found, values=tuple(math.nan for _ in found.values), mass=math.nan
    )
    yield tiny
    tiny.forwards.spoil = None


def test_what_is_no_number_is_null_in_a_reply(not_finite: Tiny) -> None:
    """A score that is no number broke the reply, or stood in it as a word that is no JSON."""
    reply = not_finite.http.post("/v1/decisions", content=decisions(more=', "x_dicast": {"detail": "full"}'))
    assert reply.status_code == 200
    told = reply.json()["answers"][0]["x_dicast"]
    assert told["refused"]["reason"] == "REASON_NOT_FINITE"
    assert told["diagnostics"]["option_mass"] is None
    (read,) = told["diagnostics"]["scores"]
    assert (read["options"], read["scores"]) == ([0, 1], [None, None])


@ROUTES
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize(
    "more", [', "seed": @', ', "x_dicast": {"temperature": @}', ', "unknown": [@]', ', "model": {"a": @}']
)
def test_no_number_anywhere(
    http: httpx.Client, server: ScriptedServer, *, route: str, number: str, more: str
) -> None:
    """NaN went in by a lenient parser and could not come out again: a failure of the server."""
    reply = http.post(route, content=body_of(route, more.replace("@", number)))
    path_of(reply, route)
    assert "number" in reply.text
    assert not server.requests


IN_SYSTEMONE = [
    (systemone(state=f'"{SURROGATE}"'), "state"),
    (systemone(state=f'{{"a": ["{SURROGATE}"]}}'), "state.a.0"),
    (systemone(f'{{"type": "noul", "instructions": "{SURROGATE}"}}'), "questions.q.instructions"),
    (systemone(f'{{"type": "noul", "criteria": {{"true": "{SURROGATE}"}}}}'), "questions.q.criteria.true"),
    (systemone(f'{{"type": "score", "criteria": ["a", "{SURROGATE}"]}}'), "questions.q.criteria.1"),
    (systemone(f'{{"type": "choice", "criteria": {{"{SURROGATE}": null}}}}'), "questions.q.criteria"),
    (f'{{"state": "s", "questions": {{"{SURROGATE}": {NOUL}}}}}', "questions"),
    (systemone(more=f', "model": "{SURROGATE}"'), "model"),
    (systemone(more=f', "x_dicast": {{"cache_salt": "{SURROGATE}"}}'), "x_dicast.cache_salt"),
    (systemone(more=f', "{SURROGATE}": 1'), ""),
]
IN_DECISIONS = [
    (decisions(evidence=f'"{SURROGATE}"'), "input"),
    (decisions(evidence=part(f'{{"a": "{SURROGATE}"}}')), "input[0].content[0].data.a"),
    (
        decisions(f'{{"type": "predicate", "instructions": "?", "name": "{SURROGATE}"}}'),
        "questions[0].name",
    ),
    (
        decisions(f'{{"type": "choice", "instructions": "?", "choices": [{{"value": "{SURROGATE}"}}]}}'),
        "questions[0].choices[0].value",
    ),
    (
        decisions(f'{{"type": "score", "instructions": "?", "levels": [{{"label": "{SURROGATE}"}}]}}'),
        "questions[0].levels[0].label",
    ),
    (decisions(more=f', "prompt_cache_key": "{SURROGATE}"'), "prompt_cache_key"),
]


@pytest.mark.parametrize(
    ("route", "body", "path"),
    [("/v1/systemone", *case) for case in IN_SYSTEMONE] + [("/v1/decisions", *case) for case in IN_DECISIONS],
)
def test_half_a_character_is_refused_where_it_stands(
    http: httpx.Client, server: ScriptedServer, *, route: str, body: str, path: str
) -> None:
    """Half of a surrogate pair could be parsed and not encoded: a failure, in the error's own text too."""
    reply = http.post(route, content=body)
    assert path_of(reply, route) == path
    assert "lone surrogate" in reply.text
    assert not server.requests


@pytest.mark.parametrize(
    "text", [b"\xc0\xaf", b"\xed\xa0\xbd", b"\xf5\x80\x80\x80", b"\xe9", "é".encode("utf-16")]
)
@ROUTES
def test_other_encodings_are_refused(
    http: httpx.Client, server: ScriptedServer, route: str, text: bytes
) -> None:
    body = body_of(route, ', "model": "@"').encode().replace(b"@", text)
    reply = http.post(route, content=body, headers={"content-type": "application/json; charset=latin-1"})
    path_of(reply, route)
    assert "is not UTF-8" in reply.text
    assert not server.requests


def test_json_nests_as_deep_as_is_published_and_no_deeper(tiny: Tiny) -> None:
    """A thousand brackets overflowed a stack; how many may nest was nowhere to be read."""
    depth = tiny.grpc.model().limits.json_depth
    nested = [f"{'[' * levels}{']' * levels}" for levels in (depth, depth + 1)]
    assert len(tiny.grpc.decide(Json(nested[0]), [Predicate("?")])) == 1
    with pytest.raises(ValueError, match=f"deeper than {depth} levels"):
        Json(nested[1])
    # Over HTTP it is the whole body that nests so deep.
    for state, status in zip((nested[0][1:-1], nested[0]), (200, 422), strict=True):
        reply = tiny.http.post("/v1/systemone", content=systemone(state=state))
        assert reply.status_code == status
    assert f"deeper than {depth} levels" in reply.json()["detail"][0]["msg"]
    for levels, status in ((depth - 6, 200), (depth - 5, 400)):
        data = '{"a": ' + "[" * levels + "]" * levels + "}"
        assert tiny.http.post("/v1/decisions", content=decisions(evidence=part(data))).status_code == status


def test_the_deepest_level_comes_back_in_the_legend(tiny: Tiny) -> None:
    deepest = "[" * 124 + "]" * 124
    score = f'{{"type": "score", "criteria": [{deepest}, "b"]}}'
    reply = tiny.http.post("/v1/systemone", content=systemone(score))
    assert reply.status_code == 200
    assert f'"legend": {{"0": {deepest}, "1": "b"}}' in reply.text
    beyond = tiny.http.post("/v1/systemone", content=systemone(score.replace("[]", "[[]]")))
    assert beyond.status_code == 422


@pytest.mark.parametrize(
    ("route", "body", "path"),
    [
        ("/v1/systemone", systemone(more=', "x_dicast": {"seed": 1, "seed": 1}'), "x_dicast.seed"),
        ("/v1/systemone", systemone(more=', "unknown": [{"a": {"b": 1, "b": 2}}]'), "unknown.0.a.b"),
        ("/v1/systemone", systemone(r'{"type": "noul", "t\u0079pe": "choice"}'), "questions.q.type"),
        ("/v1/decisions", decisions(more=', "x_dicast": {"seed": 1, "seed": 1}'), "x_dicast.seed"),
        (
            "/v1/decisions",
            decisions('{"type": "choice", "instructions": "?", "choices": [{"value": "a", "value": "b"}]}'),
            "questions[0].choices[0].value",
        ),
        ("/v1/prewarm", '{"state": {"a": 1, "a": 2}, "model": "m", "model": "n"}', "model"),
    ],
)
def test_a_key_that_occurs_twice_is_refused(
    http: httpx.Client, server: ScriptedServer, route: str, body: str, path: str
) -> None:
    """The last of two keys won unseen, and it was the other that somebody had checked."""
    reply = http.post(route, content=body)
    assert path_of(reply, "/v1/systemone" if route == "/v1/prewarm" else route) == path
    assert f"the key '{path.rpartition('.')[2]}' occurs twice" in reply.text
    assert not server.requests
