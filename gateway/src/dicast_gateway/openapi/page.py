"""`/openapi.json`, and the page that shows it: Swagger UI, whose files come from here and nowhere else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from dicast import jsontext
from dicast_gateway.openapi.document import DOCUMENT_PATH, PAGE_PATH, document

# The package is there for the two files that it ships: its own page has a script inside, which the policy
# below forbids, and it would be the whole application.
_SHIPPED = "fastapi_offline"
_FILES = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}
_HEADERS = {
    "content-security-policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}

# Addresses are relative, so that the page works behind a proxy that puts a path before ours.
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>dicast gateway</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<noscript><p>Without JavaScript: <a href="openapi.json">openapi.json</a></p></noscript>
<div id="page"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/page.js"></script>
</body>
</html>
"""
_SCRIPT = """\
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#page",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  // It would send the address of this document to its makers.
  validatorUrl: null,
});
"""


def document_routes(max_body_bytes: int) -> list[Route]:
    """The routes of the document and of its page, for a gateway that takes bodies of so many bytes."""
    described = jsontext.encode(document(max_body_bytes)).encode()

    async def open_api(http: Request) -> Response:
        return Response(described, media_type="application/json")

    async def page(http: Request) -> Response:
        return Response(_PAGE, media_type="text/html", headers=_HEADERS)

    async def script(http: Request) -> Response:
        return Response(_SCRIPT, media_type="text/javascript", headers=_HEADERS)

    return [
        _route(DOCUMENT_PATH, open_api),
        _route(PAGE_PATH, page),
        _route(f"{PAGE_PATH}/page.js", script),
        *(_route(f"{PAGE_PATH}/{name}", _shipped(name, kind)) for name, kind in _FILES.items()),
    ]


def _route(path: str, endpoint: Callable[[Request], Awaitable[Response]]) -> Route:
    return Route(path, endpoint, methods=["GET"])


def _shipped(name: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    path = Path(str(files(_SHIPPED) / "static" / name))

    async def shipped(http: Request) -> Response:
        return FileResponse(path, media_type=media_type, headers=_HEADERS)

    return shipped
