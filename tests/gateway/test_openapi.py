"""`/openapi.json` describes what really comes back, and `/docs` shows it with nothing from elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import httpx
import jsonschema_rs
import pytest
import schemathesis
from fastapi.routing import APIRoute
from gateway.eventstream import EVENTS, both_routes, read, saying
from gateway.served import Loop, ScriptedServer, failing, free_port, http_served, uniform
from gateway.test_server_errors import FAILURES
from grpc import StatusCode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.routing import Route

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import error_pb2
from dicast_gateway.app import create_app
from dicast_gateway.config import Settings
from dicast_gateway.errors import TABLE, Kind
from dicast_gateway.openapi import document
from dicast_server.service.limits import Limits

DOCUMENT = document(Settings().max_body_bytes)
SCHEMAS = DOCUMENT["components"]["schemas"]
DESCRIBED = schemathesis.openapi.from_dict(DOCUMENT)
CONFORMANCE = [
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]


def hold(reply: httpx.Response) -> httpx.Response:
    """A reply that is as its status, its headers and its body are described."""
    operation = DESCRIBED[reply.request.url.path][reply.request.method]
    operation.Case().validate_response(reply, checks=CONFORMANCE)
    return reply


def validator(schema: dict[str, Any]) -> Any:
    return jsonschema_rs.Draft202012Validator({**schema, "components": DOCUMENT["components"]})


def test_the_document_is_openapi_and_served(http: httpx.Client) -> None:
    DESCRIBED.validate()
    assert hold(http.get("/openapi.json")).json() == DOCUMENT


def test_every_route_is_described() -> None:
    served = {
        (route.path, method.lower())
        for route in create_app(Settings()).routes
        if isinstance(route, Route | APIRoute) and not route.path.startswith("/docs/")
        for method in route.methods or ()
    }
    described = {(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert served == described


def test_every_field_is_explained() -> None:
    plain = {"$ref", "description", "const", "enum"}
    unexplained = [
        f"{name}.{field}"
        for name, schema in SCHEMAS.items()
        if name not in ("Models", "Refusal", "SystemOneRefusal") and not name.endswith("Failure")
        for field, said in schema.get("properties", {}).items()
        if not plain & set(said)
    ]
    assert not unexplained


def test_the_limits_are_the_servers() -> None:
    limits = Limits()
    assert SCHEMAS["SystemOneRequest"]["properties"]["questions"]["maxProperties"] == limits.questions
    assert SCHEMAS["DecisionsRequest"]["properties"]["questions"]["maxItems"] == limits.questions
    assert SCHEMAS["SystemOneChoice"]["properties"]["criteria"]["maxProperties"] == limits.options
    assert SCHEMAS["DecisionsChoice"]["properties"]["choices"]["maxItems"] == limits.options
    assert SCHEMAS["SystemOneScore"]["properties"]["criteria"]["maxItems"] == limits.levels
    assert SCHEMAS["DecisionsScore"]["properties"]["levels"]["maxItems"] == limits.levels
    for settings in ("Settings", "PartialSettings"):
        orders = SCHEMAS[settings]["properties"]["orders"]
        assert (orders["minimum"], orders["maximum"]) == (1, limits.orders)
    samples = SCHEMAS["SystemOneRequest"]["properties"]["samples"]["anyOf"][0]
    assert samples["maximum"] == limits.orders
    temperature = SCHEMAS["Settings"]["properties"]["temperature"]
    assert temperature["minimum"] == limits.min_temperature
    assert temperature["maximum"] == limits.max_temperature
    assert (
        SCHEMAS["PrewarmRequest"]["properties"]["time_to_live_s"]["anyOf"][0]["maximum"] == limits.max_hold_s
    )
    assert f"at most {limits.json_depth} levels" in DOCUMENT["info"]["description"]


@pytest.mark.parametrize("name", ["Readout", "QuestionReadout"])
def test_exactly_one_readout(name: str) -> None:
    check = validator({"$ref": f"#/components/schemas/{name}"})
    right: list[Any] = [{"letters": {}}, {"direct": {}}, {"candidates": {}}, {"x_digits": {"base": 10}}]
    wrong: list[Any] = [{}, {"letters": {}, "direct": {}}, {"letters": None}, {"digits": {}}, {"x_digits": 1}]
    assert all(map(check.is_valid, right))
    assert not any(map(check.is_valid, wrong))
    texts = {"candidates": {"texts": ["a", "b"]}}
    assert check.is_valid(texts) == (name == "QuestionReadout")


def test_every_field_of_the_diagnostics_is_described() -> None:
    for name, message in (
        ("Diagnostics", pb.Diagnostics.DESCRIPTOR),
        ("Skip", pb.SkippedAnswer.DESCRIPTOR),
        ("Refusal", pb.RefusedAnswer.DESCRIPTOR),
        ("SystemOneRefusal", pb.RefusedAnswer.DESCRIPTOR),
    ):
        # Of a oneof one field is there, under the oneof's name.
        names = [
            field.name if field.containing_oneof is None else field.containing_oneof.name
            for field in message.fields
        ]
        assert list(SCHEMAS[name]["properties"]) == list(dict.fromkeys(names))
    (scores,) = (SCHEMAS["Diagnostics"]["properties"]["scores"]["items"],)
    assert list(scores["properties"]) == [field.name for field in pb.PassScores.DESCRIPTOR.fields]


def shown() -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Every example of the document, with its schema."""
    for path, operations in DOCUMENT["paths"].items():
        for operation in operations.values():
            for holder in (operation.get("requestBody", {}), *operation["responses"].values()):
                for content in holder.get("content", {}).values():
                    examples = [it["value"] for it in content.get("examples", {}).values()]
                    for example in [*examples, *([content["example"]] if "example" in content else [])]:
                        yield path, content["schema"], example


def test_examples_are_as_their_schemas_say() -> None:
    examples = list(shown())
    assert len(examples) > 60
    for _, schema, example in examples:
        validator(schema).validate(example)


@both_routes
@pytest.mark.parametrize("detail", ["none", "basic", "full"])
def test_answers_are_as_described(
    http: httpx.Client, server: ScriptedServer, *, route: str, body: dict[str, Any], detail: str
) -> None:
    async def some_unanswered(request: service_pb.DecideRequest, context: Any) -> service_pb.DecideResponse:
        response = await uniform(request, context)
        refused = pb.RefusedAnswer(reason=pb.RefusedAnswer.REASON_ABSTAINED, message="too uncertain")
        response.answers[0].refused.CopyFrom(refused)
        skipped = pb.SkippedAnswer(because=response.answers[0].key)
        response.answers[2].skipped.CopyFrom(skipped)
        for answer in response.answers[:2]:
            answer.diagnostics.scores.add(options=[0, 1], scores=[1.5, -2], prior=True)
            answer.diagnostics.scores[0].candidate_token_ids.add(ids=[1, 2])
        return response

    settings: dict[str, Any] = {"detail": detail}
    assert hold(http.post(route, json={**body, "x_dicast": settings})).status_code == 200
    server.script = some_unanswered
    reply = hold(http.post(route, json={**body, "x_dicast": settings}))
    assert reply.status_code == (400 if route == "/v1/systemone" else 200)
    if route == "/v1/systemone":
        settings["partial"] = True
        assert hold(http.post(route, json={**body, "x_dicast": settings})).status_code == 200


@pytest.mark.parametrize("sent", [sent for sent, _, _ in FAILURES])
@both_routes
def test_failures_are_as_described(
    http: httpx.Client,
    server: ScriptedServer,
    *,
    sent: tuple[StatusCode, str | None],
    route: str,
    body: dict[str, Any],
) -> None:
    server.script = failing(sent[0], "the reason in words", sent[1])
    assert hold(http.post(route, json=body)).status_code >= 400


@pytest.mark.parametrize("route", ["/v1/systemone", "/v1/decisions", "/v1/prewarm"])
def test_faults_of_a_body_are_as_described(http: httpx.Client, route: str) -> None:
    large = b" " * (Settings().max_body_bytes + 1)
    wrong = 400 if route == "/v1/decisions" else 422
    refused = [
        (http.post(route, content=b"["), wrong),
        (http.post(route, json={}), wrong),
        (http.post(route, json={}, headers={"x-request-timeout": "soon"}), wrong),
        (http.post(route, json={}, headers={"content-type": "multipart/form-data"}), 400),
        (http.post(route, json={}, headers={"content-encoding": "br"}), 415),
        (http.post(route, content=large), 413),
    ]
    for reply, status in refused:
        assert hold(reply).status_code == status


def test_other_routes_are_as_described(http: httpx.Client, loop: Loop) -> None:
    for path in ("/v1/models", "/livez", "/healthz", "/readyz", "/docs"):
        assert hold(http.get(path)).status_code == 200
    for path in ("/livez", "/readyz", "/docs", "/openapi.json"):
        assert hold(http.head(path)).content == b""
    assert hold(http.get("/v1/models", headers={"x-request-timeout": "soon"})).status_code == 400
    with (
        loop.entered(http_served(free_port())) as url,
        httpx.Client(base_url=url, timeout=30, trust_env=False) as alone,
    ):
        for reply in (alone.get("/readyz"), alone.head("/readyz"), alone.get("/v1/models")):
            assert hold(reply).status_code == 503
        assert hold(alone.post("/v1/prewarm", json={"state": "s"})).status_code == 503


def test_no_failure_is_left_out() -> None:
    for path, statuses in (
        ("/v1/systemone", {TABLE[kind].systemone for kind in Kind}),
        ("/v1/decisions", {TABLE[kind].decisions for kind in Kind}),
    ):
        described = {int(status) for status in DOCUMENT["paths"][path]["post"]["responses"]}
        # A client that has left reads nothing.
        assert described == {200, *statuses} - {TABLE[Kind.GONE].systemone}


@both_routes
def test_events_are_as_described(
    http: httpx.Client, server: ScriptedServer, route: str, body: dict[str, Any]
) -> None:
    content = DOCUMENT["paths"][route]["post"]["responses"]["200"]["content"]["text/event-stream"]
    by_name = {
        event["properties"]["event"]["const"]: validator(event["properties"]["data"]["contentSchema"])
        for event in content["schema"]["oneOf"]
    }
    whole = hold(http.post(route, json={**body, "x_dicast": {"detail": "full"}}, headers=EVENTS))
    failure = error_pb2.DecideError(code=StatusCode.INTERNAL.value[0], message="no")
    server.stream_script = saying(pb.Answer(predicate=pb.PredicateAnswer(probability=1)), failure)
    broken = hold(http.post(route, json=body, headers=EVENTS))
    told = [*read(whole.text).events, *read(broken.text).events]
    assert {name for name, _ in told} == {"answer", "done", "error"}
    for reply in (whole, broken):
        for name, data in re.findall(r"^event: (\w+)\ndata: (.*)$", reply.text, re.MULTILINE):
            by_name[name].validate(json.loads(data))


class References(HTMLParser):
    """What a page makes a browser fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if tag in ("script", "style") and not names.get("src"):
            self.inline.append(tag)
        if tag in ("script", "link", "img", "iframe"):
            self.found += [value for name in ("src", "href") if (value := names.get(name))]


def test_the_page_needs_nothing_from_elsewhere(http: httpx.Client) -> None:
    page = http.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    # A browser fetches nothing from elsewhere, whatever the scripts ask for.
    assert policy.startswith("default-src 'self'; ")
    assert "http" not in policy and "*" not in policy and "script-src" not in policy
    references = References()
    references.feed(page.text)
    assert not references.inline
    assert {"docs/swagger-ui-bundle.js", "docs/swagger-ui.css", "docs/page.js"} <= set(references.found)
    for address in references.found:
        if not address.startswith("data:"):
            assert not re.match(r"[a-z]+:|/", address)
            assert http.get(f"/{address}").status_code == 200
    styles = http.get("/docs/swagger-ui.css").text
    assert "@import" not in styles
    assert all(address.startswith("data:") for address in re.findall(r"url\([\"']?([^)]*)", styles))
    script = http.get("/docs/page.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert 'url: "openapi.json"' in script.text and "http" not in script.text
    assert http.get("/docs/redoc.standalone.js").status_code == 404
