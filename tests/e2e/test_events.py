"""Events of a real engine: put together, they are the JSON reply to the last bit."""

import json
from typing import Any

import httpx
import pytest
from running_pair import Pair

STATE = "Parcel 7 has not moved for nine days."
SYSTEMONE: dict[str, Any] = {
    "state": STATE,
    "questions": {
        "late": {"type": "noul", "instructions": "Is the parcel late?"},
        "team": {"type": "choice", "criteria": {"billing": "charges", "shipping": "lost parcels"}},
        "urgency": {"type": "score", "instructions": "How urgent is it?", "criteria": ["not", "very"]},
    },
}
DECISIONS: dict[str, Any] = {
    "input": STATE,
    "questions": [
        {"type": "predicate", "name": "late", "instructions": "Is the parcel late?"},
        {"type": "choice", "instructions": "Who?", "choices": [{"value": "billing"}, {"value": True}]},
        {"type": "score", "instructions": "How urgent is it?", "levels": [{"label": "a"}, {"label": "b"}]},
    ],
}


def events(pair: Pair, route: str, body: dict[str, Any]) -> list[tuple[str, Any]]:
    reply = httpx.post(
        pair.base_url + route, json=body, headers={"accept": "text/event-stream"}, timeout=60, trust_env=False
    )
    assert reply.status_code == 200, reply.text
    blocks = [block.split("\n") for block in reply.text.removesuffix("\n\n").split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


@pytest.mark.parametrize(("route", "body"), [("/v1/systemone", SYSTEMONE), ("/v1/decisions", DECISIONS)])
def test_events_together_are_the_json_reply(pair: Pair, route: str, body: dict[str, Any]) -> None:
    told = events(pair, route, body)
    assert [name for name, _ in told] == ["answer", "answer", "answer", "done"]
    whole = httpx.post(pair.base_url + route, json=body, timeout=60, trust_env=False).json()
    answers = [data for _, data in told[:-1]]
    if route == "/v1/systemone":
        assert {data["id"]: data["answer"] for data in answers} == whole["answers"]
    else:
        assert whole["answers"] == [
            {name: value for name, value in data.items() if name != "index"}
            for data in sorted(answers, key=lambda data: int(data["index"]))
        ]
    done = told[-1][1]
    assert done.keys() == {"model", "usage", "request_id"}
    assert done["model"] == whole["model"]
    assert done["usage"]["input_tokens"] == whole["usage"]["input_tokens"]
