"""Any server of a JSON dialect as a source: probabilities alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from dicast import jsontext
from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.evaluation.dialects import Dialect, dialect_of
from dicast_server.evaluation.source import Busy, Declined, Said, SourceLost, Unsaid
from dicast_server.evaluation.system import digest_of

_BUSY = (429, 503)
_ABOUT_THE_REQUEST = (400, 413, 422)
_MOST_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class HttpSource:
    """Posts to a URL; made by `to`."""

    client: httpx.AsyncClient
    url: str
    model: str
    dialect: Dialect

    @classmethod
    def to(cls, client: httpx.AsyncClient, url: str, model: str) -> HttpSource:
        """A source of the dialect that the URL ends in.

        Raises:
            ValueError: it ends in none.
        """
        dialect = dialect_of(url)
        if dialect is None or not url.startswith(("http://", "https://")):
            raise ValueError(f"{url} is no http URL that ends in /v1/systemone or /v1/decisions")
        return cls(client, url, model, dialect)

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.model} ({self.url})"

    @property
    def digest(self) -> str:
        """Of all that is known of the system: where it is and what it is called."""
        return digest_of([self.url, self.model])

    async def ask(self, questions: Sequence[LabelledQuestion]) -> list[Said | Unsaid]:
        """Answer questions about one state; see `Source.ask`."""
        body = jsontext.render(self.dialect.body(self.model, questions)).encode()
        try:
            reply = await self.client.post(
                self.url, content=body, headers={"content-type": "application/json"}
            )
        except httpx.TimeoutException as error:
            raise Declined("no answer came in time") from error
        except httpx.HTTPError as error:
            raise SourceLost(f"{self.url} does not answer: {str(error) or type(error).__name__}") from error
        if reply.status_code in _BUSY:
            raise Busy(_told(reply), _wait_s(reply))
        if reply.status_code in _ABOUT_THE_REQUEST:
            raise Declined(_told(reply))
        if reply.status_code != 200:
            raise SourceLost(f"{self.url} answers {_told(reply)}")
        try:
            return self.dialect.answers(questions, json.loads(reply.content))
        except ValueError as error:
            raise SourceLost(f"{self.url} sends another kind of reply: {error}") from error


def _wait_s(reply: httpx.Response) -> float:
    try:
        return min(_MOST_WAIT_S, max(0.0, float(reply.headers.get("retry-after", 1.0))))
    except ValueError:  # a date
        return 1.0


def _told(reply: httpx.Response) -> str:
    """The status, and the sentence that error bodies of either dialect have."""
    try:
        body: Any = json.loads(reply.content)
    except ValueError:
        return f"status {reply.status_code}"
    message = _message(body)
    return f"status {reply.status_code}: {message}" if message else f"status {reply.status_code}"


def _message(body: Any) -> str:
    """Whatever sentence there is under `error`, `detail`, `message` or `msg`, however deep."""
    match body:
        case str():
            return body
        case [first, *_]:
            return _message(first)
        case dict():
            names = ("error", "detail", "message", "msg")
            return next((_message(body[name]) for name in names if body.get(name)), "")
        case _:
            return ""
