"""`x_dicast` and its aliases, the same on both routes: what they become, and what comes back."""

from typing import Any

import httpx
import pytest
from gateway.served import ScriptedServer, uniform
from google.protobuf import text_format

from dicast.v1 import decision_pb2 as pb

SYSTEMONE = {"state": "x", "questions": {"q": {"type": "noul", "instructions": "?"}}}
DECISIONS = {"input": "x", "questions": [{"type": "predicate", "instructions": "?"}]}
ROUTES = pytest.mark.parametrize(
    ("route", "body"),
    [("/v1/systemone", SYSTEMONE), ("/v1/decisions", DECISIONS)],
    ids=["systemone", "decisions"],
)
ALL = {
    "readout": {"letters": {"style": "bracket"}},
    "orders": 4,
    "temperature": 1.5,
    "detail": "full",
    "seed": 2**63,
    "cache_salt": "ours",
    "abstain": {"min_confidence": 0.25},
    "isolated": True,
}
ALL_PROTO = """
readout { letters { style: STYLE_BRACKET } }
orders: 4 temperature: 1.5 detail: DETAIL_LEVEL_FULL seed: 9223372036854775808 cache_salt: "ours"
abstain { min_confidence: 0.25 } isolated: true
"""


@ROUTES
def test_all_settings_reach_the_server(
    http: httpx.Client, server: ScriptedServer, route: str, body: dict[str, Any]
) -> None:
    assert http.post(route, json={**body, "x_dicast": ALL}).status_code == 200
    assert server.requests[0].options == text_format.Parse(ALL_PROTO, pb.DecideOptions())


@ROUTES
@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({"x_dicast": {}}, None),
        ({"x_dicast": None}, None),
        ({"x_dicast": {"temperature": None, "orders": None}}, None),
        ({"extra": {"calibration_temperature": None}}, None),
        ({"samples": "auto"}, None),
        ({"samples": 2}, pb.DecideOptions(orders=2)),
        ({"seed": 0}, pb.DecideOptions(seed=0)),
        ({"extra": {"calibration_temperature": 2, "seed": 3}}, pb.DecideOptions(temperature=2, seed=3)),
        ({"samples": 2, "x_dicast": {"orders": 2}}, pb.DecideOptions(orders=2)),
        ({"extra": {"detail": "basic"}}, pb.DecideOptions(detail=pb.DETAIL_LEVEL_BASIC)),
    ],
)
def test_other_names_mean_the_same(
    http: httpx.Client,
    server: ScriptedServer,
    *,
    route: str,
    body: dict[str, Any],
    said: dict[str, Any],
    wanted: pb.DecideOptions | None,
) -> None:
    reply = http.post(route, json={**body, **said})
    assert reply.status_code == 200, reply.text
    assert server.requests[0].HasField("options") == (wanted is not None)
    assert server.requests[0].options == (wanted or pb.DecideOptions())


@ROUTES
@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({"x_dicast": {"orders": 2}, "samples": 3}, "samples"),
        (
            {"x_dicast": {"temperature": 1}, "extra": {"calibration_temperature": 2}},
            "extra.calibration_temperature",
        ),
        ({"seed": 1, "extra": {"seed": 2}}, "extra.seed"),
        ({"x_dicast": {"orders": 1.5}}, "x_dicast.orders"),
        ({"x_dicast": {"orders": True}}, "x_dicast.orders"),
        ({"x_dicast": {"seed": -1}}, "x_dicast.seed"),
        ({"x_dicast": {"seed": 2**64}}, "x_dicast.seed"),
        ({"x_dicast": {"temperature": "1"}}, "x_dicast.temperature"),
        ({"x_dicast": {"detail": "all"}}, "x_dicast.detail"),
        ({"x_dicast": {"sed": 1}}, "x_dicast.sed"),
        ({"x_dicast": {"readout": {"letters": {"style": "round"}}}}, "x_dicast.readout.letters.style"),
        ({"extra": {"backend": "x"}}, "extra.backend"),
        ({"samples": "many"}, "samples"),
    ],
)
def test_what_is_wrong_is_refused_with_its_path(
    http: httpx.Client,
    server: ScriptedServer,
    *,
    route: str,
    body: dict[str, Any],
    said: dict[str, Any],
    path: str,
) -> None:
    reply = http.post(route, json={**body, **said})
    if route == "/v1/systemone":
        assert reply.status_code == 422
        assert ".".join(reply.json()["detail"][0]["loc"][1:]) == path
    else:
        assert reply.status_code == 400
        assert reply.json()["error"]["param"] == path
    assert not server.requests


@ROUTES
def test_a_question_has_a_readout_of_its_own(
    http: httpx.Client, server: ScriptedServer, route: str, body: dict[str, Any]
) -> None:
    more = {"x_dicast": {"readout": {"letters": {"style": "plain"}}}}
    asked = body["questions"]
    with_more = {"q": {**asked["q"], **more}} if isinstance(asked, dict) else [{**asked[0], **more}]
    assert http.post(route, json={**body, "questions": with_more}).status_code == 200
    assert server.requests[0].questions[0].readout.letters.style == pb.LettersReadout.STYLE_PLAIN


@ROUTES
def test_asking_some_of_the_questions_is_refused_by_name(
    http: httpx.Client, server: ScriptedServer, route: str, body: dict[str, Any]
) -> None:
    reply = http.post(route, json={**body, "ask": ["q"]})
    assert reply.status_code == 400
    assert "ask" in reply.text
    assert not server.requests


@ROUTES
def test_diagnostics_come_where_they_are_asked_for(
    http: httpx.Client, server: ScriptedServer, route: str, body: dict[str, Any]
) -> None:
    async def detailed_answers(request: Any, context: Any) -> Any:
        response = await uniform(request, context)
        for each in response.answers:
            each.diagnostics.readout = "letters"
        return response

    server.script = detailed_answers

    def answer(**settings: Any) -> Any:
        answers = http.post(route, json={**body, "x_dicast": settings}).json()["answers"]
        return answers["q"] if isinstance(answers, dict) else answers[0]

    plain = answer()
    assert "x_dicast" not in plain
    assert "x_dicast" not in answer(detail="none")
    detailed = answer(detail="basic")
    assert detailed.pop("x_dicast")["diagnostics"]["readout"] == "letters"
    assert detailed == plain


def test_two_cache_salts_are_one_too_many(http: httpx.Client, server: ScriptedServer) -> None:
    body = {**DECISIONS, "prompt_cache_key": "a", "x_dicast": {"cache_salt": "b"}}
    reply = http.post("/v1/decisions", json=body)
    assert reply.json()["error"]["param"] == "prompt_cache_key"
    assert not server.requests
