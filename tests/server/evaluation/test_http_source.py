"""What other servers may say: other kinds of replies, errors, probabilities that are none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import labelled_rows
import pytest

from dicast_server.evaluation.http_source import HttpSource
from dicast_server.evaluation.source import Busy, Declined, Said, SourceLost, Unsaid

URL = "https://example.test/v1/systemone"
Reply = Callable[[httpx.Request], httpx.Response]


async def ask(tmp_path: Path, reply: Reply, url: str = URL) -> list[Said | Unsaid]:
    questions = labelled_rows.read(tmp_path, labelled_rows.rows(1))
    async with httpx.AsyncClient(transport=httpx.MockTransport(reply)) as client:
        return await HttpSource.to(client, url, "m").ask(questions)


def saying(answers: Any) -> Reply:
    return lambda request: httpx.Response(200, json={"answers": answers})


NOUL = {"noul": 0.75}
CHOICE = {"probabilities": {"nobody": 0.25, "billing": 0.25, "shipping": 0.5}}
SCORE = {"probabilities": {"0": 0.7, "1": 0.2, "2": 0.1001}}


async def test_probabilities_are_in_the_order_of_the_options(tmp_path: Path) -> None:
    sent: list[Any] = []

    def reply(request: httpx.Request) -> httpx.Response:
        sent.append(request.content.decode())
        return saying({"q0": NOUL, "q1": CHOICE, "q2": SCORE})(request)

    first, second, third = await ask(tmp_path, reply)
    assert first == Said((0.75, 0.25))
    assert second == Said((0.25, 0.5, 0.25))
    assert isinstance(third, Said)
    assert sum(third.probabilities) == pytest.approx(1, abs=1e-12)
    # As it is written in the file, to the character.
    assert '"state": {"parcel": 0, "weight": 1.0}' in sent[0]
    assert '"criteria": {"billing": "charges", "shipping": null, "nobody": "it is fine"}' in sent[0]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "no answer to it"),
        ({"probabilities": {"billing": 1.0}}, "lacks a probability"),
        ({"probabilities": None}, "lacks a probability"),
        ({"probabilities": {"nobody": 0.5, "billing": 0.5, "shipping": 0.5}}, "sum to 1.5"),
        ({"probabilities": {"nobody": True, "billing": 0.0, "shipping": 0.0}}, "lacks a probability"),
        ({"probabilities": {"nobody": 2.0, "billing": -0.5, "shipping": -0.5}}, "lacks a probability"),
    ],
)
async def test_an_answer_without_probabilities_is_none(tmp_path: Path, answer: Any, why: str) -> None:
    _, choice, _ = await ask(tmp_path, saying({"q0": NOUL, "q1": answer, "q2": SCORE}))
    assert isinstance(choice, Unsaid)
    assert why in choice.reason


@pytest.mark.parametrize(
    ("reply", "error", "why"),
    [
        (httpx.Response(422, json={"detail": [{"loc": [], "msg": "too long"}]}), Declined, "422: too long"),
        (httpx.Response(400, json={"error": {"message": "no"}}), Declined, "status 400: no"),
        (httpx.Response(429, headers={"retry-after": "0"}), Busy, "status 429"),
        (httpx.Response(503, headers={"retry-after": "tomorrow"}), Busy, "status 503"),
        (httpx.Response(500, text="<html>"), SourceLost, "answers status 500"),
        (httpx.Response(401, json={"detail": {"message": "a key"}}), SourceLost, "status 401: a key"),
        (httpx.Response(200, text="<html>"), SourceLost, "another kind of reply"),
        (httpx.Response(200, json=[1]), SourceLost, "it has no answers"),
    ],
)
async def test_failures_are_told_apart(
    tmp_path: Path, reply: httpx.Response, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        await ask(tmp_path, lambda request: reply)


async def test_a_request_that_takes_too_long_costs_its_questions_alone(tmp_path: Path) -> None:
    def reply(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("")

    with pytest.raises(Declined, match="in time"):
        await ask(tmp_path, reply)


async def test_decisions_has_its_answers_in_order(tmp_path: Path) -> None:
    levels = [{"value": value, "probability": p} for value, p in ((1, 0.5), (0, 0.5), (2, 0))]
    answers: list[Any] = [
        {"type": "predicate", "probability": 0.75},
        {"type": "refusal", "name": "q1"},
        {"type": "score", "probabilities": levels},
    ]
    url = "https://example.test/v1/decisions"
    found = await ask(tmp_path, saying(answers), url)
    assert found == [Said((0.75, 0.25)), Unsaid("refused"), Said((0.5, 0.5, 0.0))]
    with pytest.raises(SourceLost, match="it has 2 answers to 3 questions"):
        await ask(tmp_path, saying(answers[:2]), url)
