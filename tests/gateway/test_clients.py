"""The vendors' own SDKs, unmodified, against the gateway."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest
from gateway.served import MODEL, ScriptedServer, answering, failing
from grpc import StatusCode
from typesafe_sdk import Choice, Noul, Score, TypeSafeClient

from dicast.v1 import decision_pb2 as pb


@pytest.fixture
def typesafe(url: str) -> Iterator[TypeSafeClient]:
    with TypeSafeClient(api_key="k", base_url=url) as client:
        yield client


@pytest.fixture
def openai_client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="k", base_url=url + "/v1", max_retries=0) as client:
        yield client


def test_typesafe_reads_every_type(typesafe: TypeSafeClient, server: ScriptedServer) -> None:
    reply = typesafe.system_one(
        state={"t": "x"},
        questions={
            "n": Noul(instructions="?"),
            "c": Choice(instructions="?", criteria={"a": None, "b": "B"}),
            "s": Score(instructions="?", criteria=["lo", {"hi": 1}]),
        },
    )
    assert reply.model == MODEL.id
    assert reply.nouls["n"].noul == 0.5
    assert reply.choices["c"].choice == "a"
    assert reply.choices["c"].probabilities == {"a": 0.5, "b": 0.5}
    assert reply.scores["s"].score == 0.5
    assert reply.scores["s"].legend == {0: "lo", 1: {"hi": 1}}
    assert reply.usage.input_tokens == 30
    assert reply.request_id
    assert server.metadata[0]["authorization"] == "Bearer k"
    assert server.requests[0].model == "jev-latest"


def test_typesafe_lists_models(typesafe: TypeSafeClient) -> None:
    listed = typesafe.models.list()
    assert [model.name for model in listed.models] == [MODEL.id, "jev-latest", "jev-preview"]


def test_openai_reads_every_type(openai_client: openai.OpenAI, server: ScriptedServer) -> None:
    server.script = answering(
        pb.Answer(key="0", predicate=pb.PredicateAnswer(probability=0.25)),
        pb.Answer(
            key="1",
            choice=pb.ChoiceAnswer(
                value=pb.OptionValue(bool_value=True),
                confidence=0.5,
                probabilities=[
                    pb.OptionProbability(value=pb.OptionValue(string_value="true"), probability=0.25),
                    pb.OptionProbability(value=pb.OptionValue(bool_value=True), probability=0.75),
                ],
            ),
        ),
        pb.Answer(
            key="2",
            score=pb.ScoreAnswer(
                score=1.0,
                confidence=1.0,
                probabilities=[
                    pb.LevelProbability(level=0, label="lo", probability=0.0),
                    pb.LevelProbability(level=1, label="hi", probability=1.0),
                ],
            ),
        ),
        pb.Answer(key="3", refused=pb.RefusedAnswer(message="no")),
    )
    reply = openai_client.decisions.create(
        model="m",
        input="x",
        questions=[
            {"type": "predicate", "name": "p", "instructions": "?"},
            {"type": "choice", "instructions": "?", "choices": [{"value": "true"}, {"value": True}]},
            {"type": "score", "instructions": "?", "levels": [{"label": "lo"}, {"label": "hi"}]},
            {"type": "predicate", "name": "r", "instructions": "?"},
        ],
    )
    predicate, choice, score, refusal = reply.answers
    assert predicate.type == "predicate" and (predicate.name, predicate.probability) == ("p", 0.25)
    assert choice.type == "choice" and choice.choice is True and choice.name is None
    assert [option.value for option in choice.probabilities] == ["true", True]
    assert score.type == "score" and [level.label for level in score.probabilities] == ["lo", "hi"]
    assert refusal.type == "refusal" and refusal.name == "r"
    assert reply.usage.input_tokens_details.cached_tokens == 10
    assert reply.usage.output_tokens_details.reasoning_tokens == 0
    assert reply._request_id


def test_openai_lists_models(openai_client: openai.OpenAI) -> None:
    assert [model.id for model in openai_client.models.list()] == [MODEL.id, "jev-latest", "jev-preview"]


def test_sdks_show_the_message(
    typesafe: TypeSafeClient, openai_client: openai.OpenAI, server: ScriptedServer
) -> None:
    server.script = failing(StatusCode.NOT_FOUND, "no model 'm': there is one, a", "MODEL_NOT_FOUND")
    with pytest.raises(openai.NotFoundError, match="no model 'm'") as refused:
        openai_client.decisions.create(
            model="m", input="x", questions=[{"type": "predicate", "instructions": "?"}]
        )
    assert refused.value.code == "model_not_found"
    with pytest.raises(Exception, match="no model 'm'"):
        typesafe.system_one(state="x", questions={"n": Noul(instructions="?")})
