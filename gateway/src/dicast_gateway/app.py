"""The HTTP application: its routes, and what surrounds them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from dicast_gateway import decisions, prewarm, systemone
from dicast_gateway.config import Settings
from dicast_gateway.decide import call_metadata, decide, read_timeout
from dicast_gateway.decisions.failure import error_reply
from dicast_gateway.engine import Engine, connect
from dicast_gateway.errors import RETRY_UNAVAILABLE_S, GatewayError
from dicast_gateway.models import models_json
from dicast_gateway.openapi import document_routes
from dicast_gateway.reply import json_reply
from dicast_gateway.request_id import RequestId

_SYSTEMONE = systemone.SystemOne()
_DECISIONS = decisions.Decisions()


def create_app(settings: Settings) -> FastAPI:
    """The gateway as an ASGI application. It connects to its server when it starts, not before."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Engine]]:
        async with connect(settings.server) as engine:
            yield {"engine": engine}

    async def systemone_route(http: Request) -> Response:
        return await decide(http, _SYSTEMONE, http.state.engine, settings.max_body_bytes)

    async def decisions_route(http: Request) -> Response:
        return await decide(http, _DECISIONS, http.state.engine, settings.max_body_bytes)

    async def prewarm_route(http: Request) -> Response:
        return await prewarm.prewarm(http, http.state.engine, settings.max_body_bytes)

    app = FastAPI(
        lifespan=lifespan,
        # Bodies are read as bytes, so that FastAPI would know nothing of them.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=[Middleware(SingleSlashes), Middleware(RequestId, failed=_failure)],
        exception_handlers={HTTPException: _http_exception},
    )
    app.add_api_route(_SYSTEMONE.path, systemone_route, methods=["POST"], response_model=None)
    app.add_api_route(_DECISIONS.path, decisions_route, methods=["POST"], response_model=None)
    app.add_api_route(prewarm.PATH, prewarm_route, methods=["POST"], response_model=None)
    app.add_api_route("/v1/models", _models, methods=["GET"], response_model=None)
    app.router.routes.extend(document_routes(settings.max_body_bytes))
    app.add_api_route("/livez", _alive, methods=["GET", "HEAD"], response_model=None)
    app.add_api_route("/healthz", _alive, methods=["GET", "HEAD"], response_model=None)
    app.add_api_route("/readyz", _ready, methods=["GET", "HEAD"], response_model=None)
    return app


class SingleSlashes:
    """ASGI middleware: `//v1/systemone`, which a base URL with a trailing slash leads to, is served."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            scope = {**scope, "path": re.sub("/{2,}", "/", scope["path"])}
        await self._app(scope, receive, send)


async def _models(http: Request) -> Response:
    engine: Engine = http.state.engine
    try:
        return json_reply(models_json(await engine.models(read_timeout(http), call_metadata(http))))
    except GatewayError as problem:
        # Both SDKs find the message in this shape.
        return _DECISIONS.failure(problem)


async def _alive(http: Request) -> Response:
    return json_reply({"status": "alive"})


async def _ready(http: Request) -> Response:
    engine: Engine = http.state.engine
    readiness = await engine.readiness(call_metadata(http))
    shown = {"status": readiness.status, "model": readiness.model, "reason": readiness.reason}
    if readiness.status == "ready":
        return json_reply(shown)
    return json_reply(shown, 503, {"retry-after": str(RETRY_UNAVAILABLE_S)})


def _is_decisions(path: str) -> bool:
    return path.startswith(_DECISIONS.path)


async def _http_exception(http: Request, error: Exception) -> Response:
    # What Starlette itself refuses: no such route, no such method.
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if _is_decisions(http.scope["path"]):
        return error_reply(error.status_code, error.detail, headers=headers)
    return json_reply({"detail": error.detail}, error.status_code, headers)


def _failure(path: str, problem: GatewayError) -> Response:
    dialect = _DECISIONS if _is_decisions(path) else _SYSTEMONE
    return dialect.failure(problem)
