"""`x_dicast` and its aliases, the same on both routes: what they become, and what comes back."""

import json
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
    "readout": {"letters": {"style": "bracket", "correct_prior": False}},
    "orders": 4,
    "temperature": 1.5,
    "detail": "full",
    "seed": 2**63,
    "cache_salt": "ours",
    "abstain": {"min_confidence": 0.25},
    "isolated": True,
    "mode": "independent",
}
ALL_PROTO = """
readout { letters { style: STYLE_BRACKET correct_prior: false } }
orders: 4 temperature: 1.5 detail: DETAIL_LEVEL_FULL seed: 9223372036854775808 cache_salt: "ours"
abstain { min_confidence: 0.25 } isolated: true mode: MODE_INDEPENDENT
"""
READOUTS: list[tuple[Any, str]] = [
    ({"letters": {}}, "letters {}"),
    ({"letters": {"style": None, "correct_prior": True}}, "letters { correct_prior: true }"),
    ({"direct": {}}, "direct {}"),
    ({"direct": {"hide_names": True}}, "direct { hide_names: true }"),
    ({"candidates": {"scoring": "single_token"}}, "candidates { scoring: SCORING_SINGLE_TOKEN }"),
    (
        {"candidates": {"scoring": "sequence", "normalize_length": True, "correct_prior": True}},
        "candidates { scoring: SCORING_SEQUENCE normalize_length: true correct_prior: true }",
    ),
    ({"x_digits": {}}, 'extension { name: "x_digits" json: "{}" }'),
    (
        {"x_digits": {"b": 1.0, "a": [None, "é"]}},
        """extension { name: "x_digits" json: '{"b":1.0,"a":[null,"é"]}' }""",
    ),
]


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
        ({"x_dicast": {"readout": {}}}, "x_dicast.readout"),
        ({"x_dicast": {"readout": "letters"}}, "x_dicast.readout"),
        ({"x_dicast": {"readout": {"letters": {}, "direct": {}}}}, "x_dicast.readout"),
        ({"x_dicast": {"readout": {"letters": {}, "x_digits": {}}}}, "x_dicast.readout"),
        ({"x_dicast": {"readout": {"numbers": {}}}}, "x_dicast.readout"),
        ({"x_dicast": {"readout": {"letters": None}}}, "x_dicast.readout"),
        ({"x_dicast": {"readout": {"x_digits": []}}}, "x_dicast.readout"),
        ({"x_dicast": {"readout": {"direct": {"style": "plain"}}}}, "x_dicast.readout.direct.style"),
        (
            {"x_dicast": {"readout": {"candidates": {"scoring": "all"}}}},
            "x_dicast.readout.candidates.scoring",
        ),
        # Texts are those of one question's options.
        (
            {"x_dicast": {"readout": {"candidates": {"texts": ["a", "b"]}}}},
            "x_dicast.readout.candidates.texts",
        ),
        ({"x_dicast": {"mode": "alone"}}, "x_dicast.mode"),
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
@pytest.mark.parametrize(("said", "wanted"), READOUTS)
def test_readouts_arrive_on_the_request_and_on_a_question(
    http: httpx.Client,
    server: ScriptedServer,
    *,
    route: str,
    body: dict[str, Any],
    said: Any,
    wanted: str,
) -> None:
    readout = {"x_dicast": {"readout": said}}
    assert http.post(route, content=json.dumps({**body, **readout})).status_code == 200
    assert http.post(route, content=json.dumps(with_question(body, readout))).status_code == 200
    of_request, of_question = server.requests
    message = text_format.Parse(wanted, pb.Readout())
    assert of_request.options.readout == of_question.questions[0].readout == message
    assert not of_request.questions[0].HasField("readout")
    assert not of_question.HasField("options")


@ROUTES
def test_a_question_has_texts_of_its_own(
    http: httpx.Client, server: ScriptedServer, route: str, body: dict[str, Any]
) -> None:
    texts = [f"text {place}" for place in range(45)]
    more = {"x_dicast": {"readout": {"candidates": {"texts": texts}}}}
    assert http.post(route, json=with_question(body, more)).status_code == 200
    assert list(server.requests[0].questions[0].readout.candidates.texts) == texts


@ROUTES
def test_what_is_wrong_with_a_readout_says_which_there_are(
    http: httpx.Client, route: str, body: dict[str, Any]
) -> None:
    wrong: list[dict[str, Any]] = [{}, {"numbers": {}}, {"letters": {}, "direct": {}}]
    for readout in wrong:
        reply = http.post(route, json={**body, "x_dicast": {"readout": readout}})
        assert "letters, direct, candidates or a plugin's, which begins with x_" in reply.text


def with_question(body: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """The body with more in its question."""
    asked = body["questions"]
    questions: Any = {"q": {**asked["q"], **more}} if isinstance(asked, dict) else [{**asked[0], **more}]
    return {**body, "questions": questions}


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
