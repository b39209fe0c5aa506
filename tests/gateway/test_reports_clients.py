"""What went wrong between clients and servers elsewhere: routes, shapes, names of models, order, repeats."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest
from gateway.served import MODEL, ScriptedServer, answering
from gateway.tiny import Tiny
from typesafe_sdk import Choice, Noul, Score, TypeSafeClient

from dicast.v1 import decision_pb2 as pb

SYSTEMONE: dict[str, Any] = {"state": "s", "questions": {"q": {"type": "noul", "instructions": "Is it?"}}}
DECISIONS: dict[str, Any] = {"input": "s", "questions": [{"type": "predicate", "instructions": "Is it?"}]}
ROUTES = pytest.mark.parametrize(
    ("route", "body"), [("/v1/systemone", SYSTEMONE), ("/v1/decisions", DECISIONS)]
)


@pytest.mark.parametrize(
    "path", ["/v1/nope", "/", "/v1", "/v1/chat/completions", "/V1/SYSTEMONE", "/v1/systemone.json"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_unknown_paths_are_json_and_no_success(http: httpx.Client, method: str, path: str) -> None:
    """A host without the route answered 200 with a page, which the client's parser choked on."""
    reply = http.request(method, path, json=SYSTEMONE, headers={"accept": "text/html"})
    assert reply.status_code == 404
    assert reply.headers["content-type"] == "application/json"
    assert reply.json()


@pytest.mark.parametrize("prefix", ["", "/", "//"])
def test_a_base_url_may_end_in_slashes(url: str, server: ScriptedServer, prefix: str) -> None:
    """An SDK adds the route to whatever base it is given, and the two did not line up."""
    with TypeSafeClient(api_key="k", base_url=url + prefix) as client:
        assert client.system_one(state="s", questions={"q": Noul(instructions="?")}).nouls["q"].noul == 0.5
    with openai.OpenAI(api_key="k", base_url=url + prefix + "/v1/", max_retries=0) as client:
        reply = client.decisions.create(
            model="m", input="s", questions=[{"type": "predicate", "instructions": "?"}]
        )
    assert reply.answers[0].type == "predicate"
    assert len(server.requests) == 2


def test_a_base_url_with_a_path_is_a_clean_error(url: str, server: ScriptedServer) -> None:
    with (
        TypeSafeClient(api_key="k", base_url=url + "/typesafe") as client,
        pytest.raises(Exception, match="Not Found"),
    ):
        client.system_one(state="s", questions={"q": Noul(instructions="?")})
    assert not server.requests


@ROUTES
def test_the_answers_are_at_the_top(http: httpx.Client, route: str, body: dict[str, Any]) -> None:
    """A gateway in between put the reply into an envelope, where no client looked."""
    assert list(http.post(route, json=body).json()) == ["model", "answers", "usage"]


@ROUTES
@pytest.mark.parametrize(
    "name", ["typesafe/jev-1.13", "~typesafe/jev-latest", "Jev-Latest", "jev-latest ", "a\nb"]
)
def test_names_of_others_are_unknown_and_the_known_ones_are_told(
    tiny: Tiny, route: str, body: dict[str, Any], name: str
) -> None:
    """Names with a provider's prefix were taken for near enough, or broke a label or a path."""
    reply = tiny.http.post(route, json={**body, "model": name})
    assert reply.status_code == (400 if route == "/v1/systemone" else 404)
    assert "this server has tiny, jev-latest, jev-preview" in reply.text
    assert repr(name)[1:-1] in reply.text.replace("\\\\", "\\")


def test_sdks_get_options_that_look_like_numbers_in_their_order(url: str, server: ScriptedServer) -> None:
    """A language that sorts keys which look like numbers sent another order than was written."""
    names = ["b", "10", "2", "-1", "01"]
    criteria = ", ".join(f'"{name}": null' for name in names)
    question = f'{{"type": "choice", "criteria": {{{criteria}}}}}'
    body = f'{{"state": "s", "questions": {{"q": {question}}}}}'
    reply = httpx.post(f"{url}/v1/systemone", content=body, trust_env=False)
    assert list(reply.json()["answers"]["q"]["probabilities"]) == names
    assert [option.value.string_value for option in server.requests[0].questions[0].choice.options] == names
    with TypeSafeClient(api_key="k", base_url=url) as client:
        answer = client.system_one(state="s", questions={"q": Choice(criteria=dict.fromkeys(names))})
    assert list(answer.choices["q"].probabilities) == names
    # Whose language sorts them has a list on the other route.
    listed = [{"value": name} for name in names]
    asked = {"type": "choice", "instructions": "?", "choices": listed}
    reply = httpx.post(f"{url}/v1/decisions", json={"input": "s", "questions": [asked]}, trust_env=False)
    assert [each["value"] for each in reply.json()["answers"][0]["probabilities"]] == names


@ROUTES
def test_the_same_request_gives_the_same_bytes_among_others(
    tiny: Tiny, route: str, body: dict[str, Any]
) -> None:
    """Users repeat a decision to see whether it holds, and expect the same text each time."""
    first = tiny.http.post(route, json=body).json()["answers"]

    def ask(place: int) -> Any:
        other = {**SYSTEMONE, "state": f"other {place}"}
        assert tiny.http.post("/v1/systemone", json=other).status_code == 200
        return tiny.http.post(route, json=body).json()["answers"]

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, range(100))) == [first] * 100


def test_levels_count_from_zero(http: httpx.Client, url: str, server: ScriptedServer) -> None:
    """Levels were counted from 1 inside, and the legend said so too."""
    weights = (0.2, 0.3, 0.5)
    levels = [pb.LevelProbability(level=level, probability=p) for level, p in enumerate(weights)]
    server.script = answering(
        pb.Answer(score=pb.ScoreAnswer(score=1.3, confidence=0.25, probabilities=levels))
    )
    question = {"type": "score", "criteria": ["low", "mid", "high"]}
    answer = http.post("/v1/systemone", json={"state": "s", "questions": {"q": question}}).json()["answers"][
        "q"
    ]
    assert answer["legend"] == {"0": "low", "1": "mid", "2": "high"}
    assert answer["probabilities"] == {"0": 0.2, "1": 0.3, "2": 0.5}
    assert answer["score"] == 1.3
    with TypeSafeClient(api_key="k", base_url=url) as client:
        reply = client.system_one(state="s", questions={"q": Score(criteria=["low", "mid", "high"])})
    assert dict(reply.scores["q"].probabilities) == {0: 0.2, 1: 0.3, 2: 0.5}
    assert reply.model == MODEL.id


def test_a_score_is_the_mean_of_its_levels(tiny: Tiny) -> None:
    question = {"type": "score", "instructions": "How?", "criteria": ["low", "mid", "high"]}
    answer = tiny.answers("/v1/systemone", {"state": "s", "questions": {"q": question}})["q"]
    assert list(answer["probabilities"]) == ["0", "1", "2"]
    mean = sum(int(level) * p for level, p in answer["probabilities"].items())
    assert answer["score"] == pytest.approx(mean, abs=1e-12)
