"""Bodies that are meant to hurt: a clear refusal, whatever they hold, for a bounded price."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from gateway.served import ScriptedServer

from dicast_gateway import decisions, systemone
from dicast_gateway.body import parse_body
from dicast_gateway.errors import GatewayError, Kind

MIB = 1024 * 1024
LIMIT = 4 * MIB - 64 * 1024
READ: dict[str, Callable[[bytes], Any]] = {
    "systemone": lambda body: systemone.SystemOne().read(parse_body(body, "state")),
    "decisions": lambda body: decisions.Decisions().read(parse_body(body, "input")),
}
ROUTES = pytest.mark.parametrize("route", ["/v1/systemone", "/v1/decisions"])


def many(before: str, entry: str, after: str, size: int) -> bytes:
    """A body of about `size` bytes, with as many entries as fit; `#` in one is its number."""
    count = (size - len(before) - len(after)) // (len(entry) + (5 if "#" in entry else 1))
    return (before + ",".join(entry.replace("#", f"{n:x}") for n in range(count)) + after).encode()


def shape(before: str, entry: str, after: str) -> tuple[str, str, str]:
    return before, entry, after


NOUL = '"questions":{"q":{"type":"noul","instructions":"?"}}'
FULL_OF_FAULTS = {
    "questions that are numbers": ("systemone", shape('{"state":"s","questions":{', '"#":5', "}}")),
    "questions without a type": ("systemone", shape('{"state":"s","questions":{', '"#":{}', "}}")),
    "levels": (
        "systemone",
        shape('{"state":"s","questions":{"q":{"type":"score","criteria":[', "0", "]}}}"),
    ),
    "options": (
        "systemone",
        shape('{"state":"s","questions":{"q":{"type":"choice","criteria":{', '"#":0', "}}}}"),
    ),
    "fields of a question": (
        "systemone",
        shape('{"state":"s","questions":{"q":{"type":"noul",', '"#":0', "}}}"),
    ),
    "settings": ("systemone", shape("{" + NOUL + ',"state":"s","x_dicast":{', '"#":0', "}}")),
    "conditions": (
        "systemone",
        shape('{"state":"s","questions":{"q":{"type":"noul","ask_if":{', '"#":0', "}}}}"),
    ),
    "answers": (
        "systemone",
        shape('{"state":"s","questions":{"q":{"type":"noul","ask_if":{"q":[', "[]", "]}}}}"),
    ),
    "conditions of a plugin": (
        "decisions",
        shape('{"input":"s","questions":[{"type":"x_rank","ask_if":{', '"#":[]', "}}]}"),
    ),
    "names of nobody": (
        "decisions",
        shape(
            '{"input":"s","questions":[{"type":"predicate","instructions":"","ask_if":{', '"#":[0]', "}}]}"
        ),
    ),
    "ask": ("decisions", shape('{"input":"s","questions":[],"ask":[', "0", "]}")),
    "texts": (
        "systemone",
        shape(
            '{"state":"s","questions":{"q":{"type":"noul","x_dicast":{"readout":{"candidates":{"texts":[',
            "0",
            "]}}}}}}",
        ),
    ),
    "items": ("decisions", shape('{"input":[', "0", '],"questions":[]}')),
    "parts": ("decisions", shape('{"input":[{"role":"user","content":[', "{}", ']}],"questions":[]}')),
    "questions in a list": ("decisions", shape('{"input":"s","questions":[', "0", "]}")),
    "choices": (
        "decisions",
        shape('{"input":"s","questions":[{"type":"choice","instructions":"","choices":[', "0", "]}]}"),
    ),
    "fields": ("decisions", shape('{"input":"s","questions":[],', '"#":0', "}")),
    "faults in faults": (
        "decisions",
        shape(
            '{"input":"s","questions":[',
            '{"type":"choice","instructions":"","choices":[' + ",".join(["{}"] * 100) + "]}",
            "]}",
        ),
    ),
}


@pytest.mark.parametrize("name", list(FULL_OF_FAULTS))
def test_a_body_full_of_faults_costs_little_memory(name: str) -> None:
    """Four megabytes of mistakes took gigabytes: each was described before twenty of them were told."""
    dialect, parts = FULL_OF_FAULTS[name]
    body = many(*parts, MIB // 4)
    tracemalloc.start()
    try:
        with pytest.raises(GatewayError) as caught:
            READ[dialect](body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.kind is Kind.INVALID
    assert len(caught.value.faults) == 20
    # The parsed body itself takes the most: an empty object of three bytes has a hundred and fifty.
    assert peak < 64 * len(body)


@pytest.mark.parametrize(
    ("route", "size", "parts", "status"),
    [
        ("/v1/systemone", LIMIT - 1024, shape('{"state":{', '"":0', "}," + NOUL + "}"), 200),
        ("/v1/systemone", MIB, shape("{", '"":0', "}"), 422),
        ("/v1/systemone", MIB, shape('{"state":"s","questions":{', '"#":{}', "}}"), 422),
        ("/v1/decisions", MIB, shape('{"input":"s",', '"#":0', "}"), 400),
        ("/v1/decisions", MIB, shape('{"input":[', "0", '],"questions":[]}'), 400),
    ],
    ids=["in a state", "one key", "questions", "fields", "items"],
)
def test_a_million_entries_are_answered(
    http: httpx.Client,
    server: ScriptedServer,
    *,
    route: str,
    size: int,
    parts: tuple[str, str, str],
    status: int,
) -> None:
    """A body of millions of tiny entries held another gateway's only thread until its probes failed."""
    reply = http.post(route, content=many(*parts, size))
    assert reply.status_code == status
    assert reply.headers["content-type"] == "application/json"
    assert len(reply.content) < 16 * 1024
    assert len(server.requests) == (status == 200)
    assert http.get("/livez").status_code == 200


def test_faults_far_apart_are_told_with_their_places(http: httpx.Client) -> None:
    good, bad = {"type": "predicate", "instructions": "?"}, {"type": "predicate"}
    questions = [bad if place in (3, 45, 390) else good for place in range(400)]
    error = http.post("/v1/decisions", json={"input": "s", "questions": questions}).json()["error"]
    assert error["param"] == "questions[3].instructions"
    assert [part.split(":")[0] for part in error["message"].split("; ")] == [
        f"questions[{place}].instructions" for place in (3, 45, 390)
    ]
    options = {f"o{place:03}": 1 if place in (7, 210) else None for place in range(255)}
    body = {"state": "s", "questions": {"q": {"type": "choice", "criteria": options}}}
    detail = http.post("/v1/systemone", json=body).json()["detail"]
    assert [fault["loc"][-1] for fault in detail] == ["o007", "o210"]
    levels = [1 if place in (0, 60) else "l" for place in range(61)]
    body = {"state": "s", "questions": {"q": {"type": "score", "criteria": levels}}}
    detail = http.post("/v1/systemone", json=body).json()["detail"]
    assert [fault["loc"][-1] for fault in detail] == [0, 60]


def test_long_lists_arrive_whole(http: httpx.Client, server: ScriptedServer) -> None:
    names = [f"o{place}" for place in range(255)]
    questions = {
        f"q{place}": {"type": "choice", "criteria": dict.fromkeys(names[: 20 + place])} for place in range(45)
    }
    assert http.post("/v1/systemone", json={"state": "s", "questions": questions}).status_code == 200
    listed = [
        {"type": "choice", "instructions": "?", "choices": [{"value": name} for name in each["criteria"]]}
        for each in questions.values()
    ]
    items = [{"role": "user", "content": f"m{place}"} for place in range(333)]
    assert http.post("/v1/decisions", json={"input": items, "questions": listed}).status_code == 200
    first, second = server.requests
    assert [question.key for question in first.questions] == list(questions)
    for request in (first, second):
        found = [[o.value.string_value for o in question.choice.options] for question in request.questions]
        assert found == [names[: 20 + place] for place in range(45)]
    assert [item.message.content.text for item in second.state.items.items] == [
        item["content"] for item in items
    ]


@ROUTES
@pytest.mark.parametrize("opening", ["[", '{"a":', '{"state":[', '[{"":'])
def test_brackets_that_never_close(
    http: httpx.Client, server: ScriptedServer, route: str, opening: str
) -> None:
    """Deep nesting ended in a stack overflow, which the caller saw as a failure of the server."""
    reply = http.post(route, content=opening * (LIMIT // len(opening)))
    assert reply.status_code == (422 if route == "/v1/systemone" else 400)
    assert "nests deeper than 128 levels" in reply.text
    assert not server.requests


@ROUTES
def test_a_stream_of_megabytes_is_cut_at_the_limit(
    http: httpx.Client, server: ScriptedServer, route: str
) -> None:
    """A body without a length was gathered whole before anyone looked at how large it was."""
    piece = b"[" * (64 * 1024)

    def pieces() -> Iterator[bytes]:
        for _ in range(64 * MIB // len(piece)):
            yield piece

    tracemalloc.start()
    try:
        assert http.post(route, content=pieces()).status_code == 413
        assert http.post(route, content=piece * 160).status_code == 413
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The second body itself, 10 MiB, is the client's; the gateway holds what it takes at most, and its copy.
    assert peak < 10 * MIB + 4 * LIMIT
    assert http.get("/livez").status_code == 200
    assert not server.requests


@ROUTES
@pytest.mark.parametrize("number", ["9" * 100_000, "-" + "9" * 5000, "0." + "9" * 100_000, "1e-999"])
def test_numbers_of_any_length_arrive_as_they_are(
    http: httpx.Client, server: ScriptedServer, route: str, number: str
) -> None:
    """Turning thousands of digits into an integer takes quadratic time, or is refused by the language."""
    part = f'[{{"role":"user","content":[{{"type":"input_json","data":{{"n":{number}}}}}]}}]'
    question = json.dumps({"type": "predicate", "instructions": "?"})
    body = (
        f'{{"state":{{"n":{number}}},{NOUL}}}'
        if route == "/v1/systemone"
        else f'{{"input":{part},"questions":[{question}]}}'
    )
    assert http.post(route, content=body).status_code == 200
    state = server.requests[0].state
    sent = (
        state.json if route == "/v1/systemone" else state.items.items[0].message.content.parts.parts[0].json
    )
    assert sent == f'{{"n":{number}}}'
    # Where a number is a setting it has a range.
    for setting in ("seed", "orders", "temperature"):
        text = body[:-1] + f', "x_dicast": {{"{setting}": {number}}}}}'
        reply = http.post(route, content=text)
        assert reply.status_code in (200, 400, 422)
        assert setting in reply.text or reply.status_code == 200
