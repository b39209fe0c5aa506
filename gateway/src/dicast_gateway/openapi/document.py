"""The OpenAPI document: every route of the gateway, with all that it may answer."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from dicast_gateway import prewarm
from dicast_gateway.accept import EVENT_STREAM
from dicast_gateway.config import DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S
from dicast_gateway.decisions import Decisions
from dicast_gateway.decisions.failure import to_response as decisions_failure
from dicast_gateway.openapi import events, examples
from dicast_gateway.openapi.failures import (
    DECISIONS_KINDS,
    FAILURES,
    MODELS_KINDS,
    PREWARM_KINDS,
    SYSTEMONE_KINDS,
    failures,
)
from dicast_gateway.openapi.replies import REPLIES
from dicast_gateway.openapi.requests import request_schemas
from dicast_gateway.openapi.schemas import ref
from dicast_gateway.systemone import SystemOne
from dicast_gateway.systemone.failure import to_response as systemone_failure

DOCUMENT_PATH = "/openapi.json"
PAGE_PATH = "/docs"

_ABOUT = """\
Typed questions about a text or a JSON value, answered with probabilities: TypeSafe's `/v1/systemone` and
OpenAI's `/v1/decisions`, so that their SDKs work by changing a base URL.

- Every response has `X-Request-Id`, the caller's if it sent one of 1 to 128 visible ASCII characters.
- Bodies are strict JSON (UTF-8, no NaN, no lone surrogates, at most 128 levels deep) whatever their
  `Content-Type` says, multipart apart. A key that occurs twice is kept inside of a state and refused
  elsewhere.
- Bodies may be coded with gzip or zstd, also one after the other; `Content-Encoding` names the codings.
- A path that is not listed here is a 404, and a method that is not listed is a 405 with `Allow`. Their bodies
  are `{"detail": TEXT}`, and the form of OpenAI's errors under `/v1/decisions`.
"""
_HEADERS: dict[str, Any] = {
    "RequestId": {
        "description": "Names the request here and in the log.",
        "required": True,
        "schema": {"type": "string"},
    },
    "TypeSafeRequestId": {
        "description": "The same, where TypeSafe's SDKs look for it.",
        "required": True,
        "schema": {"type": "string"},
    },
    "RetryAfter": {
        "description": "After how many seconds a retry helps.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "RetryAfterMs": {
        "description": "The same in milliseconds.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "AcceptEncoding": {
        "description": "The codings that are understood.",
        "schema": {"const": "identity, gzip, zstd"},
    },
}
_NAMED = {
    "X-Request-Id": {"$ref": "#/components/headers/RequestId"},
    "X-TypeSafe-Request-Id": {"$ref": "#/components/headers/TypeSafeRequestId"},
}
_PARAMETERS: dict[str, Any] = {
    "Timeout": {
        "name": "X-Request-Timeout",
        "in": "header",
        "description": f"Seconds until the caller gives up: {DEFAULT_TIMEOUT_S:g} if it does not say, "
        f"{MAX_TIMEOUT_S:g} at most. Covers the whole stream.",
        "schema": {"type": "number", "exclusiveMinimum": 0},
    },
    "RequestId": {
        "name": "X-Request-Id",
        "in": "header",
        "description": "The caller's name for the request; one that does not fit is replaced.",
        "schema": {"type": "string"},
    },
    "Tenant": {
        "name": "X-Dicast-Tenant",
        "in": "header",
        "description": "Keeps the states of one tenant from another.",
        "schema": {"type": "string"},
    },
}
_SECURITY: dict[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer KEY`."},
    "xApiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Api-Key",
        "description": "The same key, which counts if there is no `Authorization`.",
    },
    "apiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "Api-Key",
        "description": "The same key, which counts if there is neither of the others.",
    },
}
# A server without keys asks nobody for one.
_KEY_OR_NONE: list[dict[str, Any]] = [{}, {"bearer": []}, {"xApiKey": []}, {"apiKey": []}]
_NO_KEY: list[dict[str, Any]] = []


def document(max_body_bytes: int) -> dict[str, Any]:
    """The document of a gateway that takes bodies of so many bytes."""
    size = f"A JSON object of at most {max_body_bytes} bytes, on the wire and without its codings."
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dicast gateway",
            "version": version("dicast-gateway"),
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": _KEY_OR_NONE,
        "tags": [
            {"name": "decisions", "description": "Questions, and the states that they are about."},
            {"name": "health", "description": "For probes. No key is needed."},
            {"name": "documentation", "description": "This document. No key is needed."},
        ],
        "paths": {
            SystemOne.path: {"post": _systemone(size)},
            Decisions.path: {"post": _decisions(size)},
            prewarm.PATH: {"post": _prewarm(size)},
            "/v1/models": {"get": _models()},
            "/livez": _alive("livez"),
            "/healthz": _alive("healthz"),
            "/readyz": _ready(),
            DOCUMENT_PATH: _page("openApi", "This document", "application/json", {"type": "object"}),
            PAGE_PATH: _page("docs", "This document to read", "text/html", {"type": "string"}),
        },
        "components": {
            "schemas": dict(sorted({**request_schemas(), **REPLIES, **FAILURES}.items())),
            "headers": _HEADERS,
            "parameters": _PARAMETERS,
            "securitySchemes": _SECURITY,
        },
    }


def _systemone(size: str) -> dict[str, Any]:
    reply = examples.SYSTEMONE_REPLY
    operation = _posted(
        "systemOne", "Ask in TypeSafe's dialect", size, "SystemOneRequest", examples.SYSTEMONE_REQUESTS
    )
    return operation | {
        "description": "Fields that are not listed are ignored at the top and refused in a question.\n\n"
        + events.about_systemone(reply),
        "responses": _responses(
            _json("SystemOneReply", reply) | {EVENT_STREAM: {"schema": events.systemone_event()}},
            failures(SYSTEMONE_KINDS, systemone_failure, ("questions", "urgency", "score", "criteria")),
            "The answers, or a stream of them",
        ),
    }


def _decisions(size: str) -> dict[str, Any]:
    reply = examples.DECISIONS_REPLY
    operation = _posted(
        "decisions", "Ask in OpenAI's dialect", size, "DecisionsRequest", examples.DECISIONS_REQUESTS
    )
    return operation | {
        "description": "Fields that are not listed are refused. A question that is refused has an answer of "
        "the type `refusal`.\n\n" + events.about_decisions(reply),
        "responses": _responses(
            _json("DecisionsReply", reply) | {EVENT_STREAM: {"schema": events.decisions_event()}},
            failures(DECISIONS_KINDS, decisions_failure, ("questions", 2, "levels")),
            "The answers, or a stream of them",
        ),
    }


def _prewarm(size: str) -> dict[str, Any]:
    operation = _posted("prewarm", "Read a state ahead", size, "PrewarmRequest", examples.PREWARM_REQUESTS)
    return operation | {
        "description": "Reads a state and keeps it, so that questions about it are answered sooner.",
        "responses": _responses(
            _json("PrewarmReply", examples.PREWARM_REPLY),
            failures(PREWARM_KINDS, systemone_failure, ("state",)),
            "What was kept",
        ),
    }


def _models() -> dict[str, Any]:
    return {
        "operationId": "models",
        "tags": ["decisions"],
        "summary": "List the models",
        "description": "All names that a request may use now, the default model's first.",
        "parameters": _parameters(),
        "responses": _responses(
            _json("Models", examples.MODELS_REPLY),
            failures(MODELS_KINDS, decisions_failure, ("x-request-timeout",), "header"),
            "The names",
        ),
    }


def _posted(name: str, summary: str, size: str, schema: str, requests: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": name,
        "tags": ["decisions"],
        "summary": summary,
        "parameters": _parameters(),
        "requestBody": {
            "required": True,
            "description": size,
            "content": {
                "application/json": {
                    "schema": ref(schema),
                    "examples": {name: {"value": value} for name, value in requests.items()},
                }
            },
        },
    }


def _parameters() -> list[dict[str, Any]]:
    return [{"$ref": f"#/components/parameters/{name}"} for name in _PARAMETERS]


def _json(schema: str, example: Any) -> dict[str, Any]:
    return {"application/json": {"schema": ref(schema), "example": example}}


def _responses(content: dict[str, Any], failed: dict[str, Any], description: str) -> dict[str, Any]:
    return _with_names({"200": {"description": description, "content": content}, **failed})


def _with_names(responses: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Responses with the headers that all of them have."""
    return {
        status: {**response, "headers": {**_NAMED, **response.get("headers", {})}}
        for status, response in responses.items()
    }


def _alive(name: str) -> dict[str, Any]:
    alive = _json("Alive", {"status": "alive"})
    return _free(name, "health", "Is the gateway alive?", {"200": {"description": "It is", "content": alive}})


def _ready() -> dict[str, Any]:
    ready = {"status": "ready", "model": "smollm2-135m-instruct", "reason": ""}
    starting = {"status": "starting", "model": None, "reason": "The model is loading."}
    told = {
        "200": {"description": "It would", "content": _json("Readiness", ready)},
        "503": {
            "description": "Not now: `reason` says why",
            "headers": {"Retry-After": {"$ref": "#/components/headers/RetryAfter"}},
            "content": _json("Readiness", starting),
        },
    }
    return _free("readyz", "health", "Would a decision be answered now?", told)


def _page(name: str, summary: str, media_type: str, schema: dict[str, Any]) -> dict[str, Any]:
    content = {media_type: {"schema": schema}}
    return _free(name, "documentation", summary, {"200": {"description": summary, "content": content}})


def _free(name: str, tag: str, summary: str, responses: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A path that needs no key: GET, and HEAD for all but the body."""
    bodiless = {
        status: {key: value for key, value in response.items() if key != "content"}
        for status, response in responses.items()
    }
    shared = {"tags": [tag], "summary": summary, "security": _NO_KEY}
    return {
        "get": {"operationId": name, **shared, "responses": _with_names(responses)},
        "head": {"operationId": f"{name}Head", **shared, "responses": _with_names(bodiless)},
    }
