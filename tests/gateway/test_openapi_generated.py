"""The OpenAPI document is true: what it allows is answered, what it forbids refused, its examples work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
import tiny_server
from gateway.served import Loop
from gateway.tiny import tiny_served
from schemathesis.specs.openapi.checks import positive_data_acceptance

from dicast_gateway.config import Settings
from dicast_gateway.openapi import document

CONTEXT = 16_384
PATIENCE_S = 30.0
Case = schemathesis.Case[Any]
# What no JSON Schema can forbid. Such requests are refused, and the document says so in words.
UNSAYABLE = re.compile(
    "repeats the value of|names no earlier call|says something else than|a whole number from 0 on"
    "|is no question of this request|is no answer of question|waits in a circle|is the name of"
    "|no plugin of this server|is no readout of this server"
    "|candidate|there is nothing to score|is no token of its own"
    '|"error_type": "refused"|max_tokens_exceeded|context_length_exceeded|not_supported'
)


def described(*, names: bool, **generation: Any) -> schemathesis.BaseSchema:
    """The document, for requests that only name models that are there.

    Made-up names of questions and of plugins are mostly wrong: without `names` there are none.
    """
    found = document(Settings().max_body_bytes)
    if not names:
        withhold_names(found["components"]["schemas"])
    for request in ("SystemOneRequest", "DecisionsRequest", "PrewarmRequest"):
        found["components"]["schemas"][request]["properties"]["model"]["enum"] = ["", "jev-latest"]
    generation |= {"deterministic": True, "database": "none", "allow-extra-parameters": False}
    config = {"seed": 1, "generation": generation}
    return schemathesis.openapi.from_dict(found, config=schemathesis.Config.from_dict(config))


def withhold_names(schemas: dict[str, Any]) -> None:
    for schema in schemas.values():
        for name in {"ask", "ask_if"} & schema.get("properties", {}).keys():
            schema["properties"][name] = {"type": "null"}
    for name in ("Readout", "QuestionReadout"):
        del schemas[name]["patternProperties"]
    for name in ("SystemOnePluginQuestion", "DecisionsPluginQuestion"):
        schemas[name] = {"not": {}}


EVERYTHING = described(names=True, **{"max-examples": 20})
NAMELESS = described(names=False, **{"max-examples": 20, "mode": "positive"}).include(
    path=["/v1/systemone", "/v1/decisions"]
)
STREAMS = described(names=False, **{"max-examples": 10, "mode": "positive"}).include(
    path=["/v1/systemone", "/v1/decisions"]
)


@pytest.fixture(scope="module")
def url(loop: Loop) -> Iterator[str]:
    """A gateway before a real engine, which has the limits that the document tells of; its model is tiny."""

    def load() -> Any:
        model = tiny_server.tiny_llama(max_position_embeddings=CONTEXT)
        return tiny_server.load_tiny(model=model, context=CONTEXT)

    with tiny_served(loop, load=load) as served:
        yield str(served.http.base_url).rstrip("/")


@EVERYTHING.parametrize()
def test_generated_requests(url: str, case: Case) -> None:
    check(url, case)


@NAMELESS.parametrize()
def test_generated_requests_without_names(url: str, case: Case) -> None:
    check(url, case)


@STREAMS.parametrize()
def test_generated_requests_for_streams(url: str, case: Case) -> None:
    check(url, case, accept="text/event-stream")


def check(url: str, case: Case, **headers: str) -> None:
    be_patient(case)
    reply = case.call(base_url=url, headers=headers)
    unsayable = reply.status_code in (400, 422) and UNSAYABLE.search(reply.text)
    case.validate_response(reply, excluded_checks=[positive_data_acceptance] if unsayable else None)


def be_patient(case: Case) -> None:
    """Deadlines that are right and too short would have most requests end with a 504."""
    said = str(case.headers.get("X-Request-Timeout", ""))
    if re.fullmatch(r"[0-9.e+-]+", said) and 0 < float(said) < PATIENCE_S:
        case.headers["X-Request-Timeout"] = str(PATIENCE_S)


def examples() -> list[Any]:
    found = []
    for path, operations in document(Settings().max_body_bytes)["paths"].items():
        if "requestBody" in (operation := operations.get("post", {})):
            media_type = operation["requestBody"]["content"]["application/json"]
            for name, example in media_type["examples"].items():
                found.append(pytest.param(path, example["value"], id=f"{path}: {name}"))
    return found


@pytest.mark.parametrize(("path", "body"), examples())
def test_documented_examples_are_answered(url: str, path: str, body: Any) -> None:
    reply = httpx.post(url + path, json=body, timeout=PATIENCE_S, trust_env=False)
    assert reply.status_code == 200, reply.text
    EVERYTHING[path]["POST"].validate_response(reply)
