"""`ask` and `ask_if`: what they become in protobuf, and what is refused."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from gateway.eventstream import EVENTS, told
from gateway.served import ScriptedServer
from google.protobuf import text_format

from dicast.v1 import decision_pb2 as pb

LEVELS = ["can wait", "today", {"by": "now"}]
SYSTEMONE: dict[str, Any] = {
    "state": "s",
    "questions": {
        "late": {"type": "noul", "instructions": "?"},
        "team": {"type": "choice", "criteria": {"billing": None, "1": None}},
        "urgency": {"type": "score", "criteria": LEVELS},
        "last": {"type": "noul", "instructions": "?"},
    },
}
DECISIONS: dict[str, Any] = {
    "input": "s",
    "questions": [
        {"type": "predicate", "instructions": "?", "name": "late"},
        {
            "type": "choice",
            "instructions": "?",
            "name": "team",
            "choices": [{"value": "billing"}, {"value": "1"}, {"value": True}],
        },
        {
            "type": "score",
            "instructions": "?",
            "name": "urgency",
            "levels": [{"label": "can wait"}, {"label": "today"}, {"label": "now"}],
        },
        {"type": "predicate", "instructions": "?"},
    ],
}
both = pytest.mark.parametrize("route", ["/v1/systemone", "/v1/decisions"])


def last(route: str, **fields: Any) -> dict[str, Any]:
    """A body of four questions with more in the last one."""
    if route == "/v1/systemone":
        asked = SYSTEMONE["questions"]
        return {**SYSTEMONE, "questions": {**asked, "last": {**asked["last"], **fields}}}
    *others, question = DECISIONS["questions"]
    return {**DECISIONS, "questions": [*others, {**question, **fields}]}


def fault(reply: httpx.Response) -> tuple[str, str]:
    """The path and the message of the only fault."""
    if reply.request.url.path == "/v1/systemone":
        assert reply.status_code == 422, reply.text
        (found,) = reply.json()["detail"]
        return ".".join(map(str, found["loc"][1:])), found["msg"]
    assert reply.status_code == 400, reply.text
    error = reply.json()["error"]
    return error["param"], error["message"].removeprefix(f"{error['param']}: ")


@both
@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ({"late": ["yes"]}, "bool_value: true"),
        ({"late": ["no"]}, "bool_value: false"),
        ({"late": [True]}, "bool_value: true"),
        ({"late": ["YES"]}, 'string_value: "YES"'),
        ({"late": [1]}, "level: 1"),
        ({"team": ["billing"]}, 'string_value: "billing"'),
        ({"team": ["1"]}, 'string_value: "1"'),
        ({"team": ["yes"]}, 'string_value: "yes"'),
        ({"team": [True]}, "bool_value: true"),
        ({"urgency": [2]}, "level: 2"),
        ({"urgency": ["2"]}, "level: 2"),
        ({"urgency": ["today"]}, "level: 1"),
        ({"urgency": ["02"]}, 'string_value: "02"'),
        ({"urgency": [True]}, "bool_value: true"),
    ],
)
def test_answers_have_the_type_of_their_question(
    http: httpx.Client, server: ScriptedServer, *, route: str, condition: Any, wanted: str
) -> None:
    """Other servers write yes and no for a yes/no question and a level by its text or in digits."""
    assert http.post(route, json=last(route, ask_if=condition)).status_code == 200
    assert http.post(route, json=last(route, x_dicast={"ask_if": condition})).status_code == 200
    (name,) = condition
    key = name if route == "/v1/systemone" else str(["late", "team", "urgency"].index(name))
    message = text_format.Parse(f"key: '{key}' any_of {{ {wanted} }}", pb.Condition())
    for request in server.requests:
        assert list(request.questions[3].ask_if) == [message]
        assert not any(question.ask_if for question in request.questions[:3])


@both
def test_all_conditions_arrive_in_their_order(http: httpx.Client, server: ScriptedServer, route: str) -> None:
    condition = {"urgency": [2, "0"], "late": ["yes", False]}
    assert http.post(route, json=last(route, ask_if=condition)).status_code == 200
    keys = ["urgency", "late"] if route == "/v1/systemone" else ["2", "0"]
    assert [
        (each.key, [str(value).strip() for value in each.any_of])
        for each in server.requests[0].questions[3].ask_if
    ] == [
        (keys[0], ["level: 2", "level: 0"]),
        (keys[1], ["bool_value: true", "bool_value: false"]),
    ]


@both
def test_nothing_said_is_no_condition(http: httpx.Client, server: ScriptedServer, route: str) -> None:
    nothing: list[dict[str, Any]] = [
        {"ask_if": None},
        {"ask_if": {}},
        {"x_dicast": {"ask_if": None}},
        {"x_dicast": {}},
    ]
    for fields in nothing:
        body = {**last(route, **fields), "ask": None, "x_dicast": {"ask": None}}
        assert http.post(route, json=body).status_code == 200
    assert all(not request.questions[3].ask_if and not request.ask for request in server.requests)


@both
@pytest.mark.parametrize(
    ("condition", "path"),
    [
        ("yes", "ask_if"),
        (["late"], "ask_if"),
        ({"late": "yes"}, "ask_if.late"),
        ({"late": []}, "ask_if.late"),
        ({"late": ["yes", None]}, "ask_if.late[1]"),
        ({"late": [{}]}, "ask_if.late[0]"),
        ({"urgency": [1.5]}, "ask_if.urgency[0]"),
        ({"urgency": [1.0]}, "ask_if.urgency[0]"),
        ({"urgency": [-1]}, "ask_if.urgency[0]"),
        ({"urgency": [2**32]}, "ask_if.urgency[0]"),
    ],
)
def test_a_condition_of_another_shape_is_refused(
    http: httpx.Client, server: ScriptedServer, *, route: str, condition: Any, path: str
) -> None:
    """Whoever sends a condition must not get an answer that was given regardless of it."""
    found, _ = fault(http.post(route, json=last(route, ask_if=condition)))
    if route == "/v1/systemone":
        assert found == "questions.last.noul." + path.replace("[", ".").replace("]", "")
    else:
        assert found == f"questions[3].{path}"
    assert not server.requests


@both
def test_a_text_that_may_be_two_levels_is_refused(http: httpx.Client, route: str) -> None:
    """The third level is called 1, and the second one is number 1: other servers mean this or that one."""
    scale: Any = {"type": "score", "criteria": ["2", "0", "1"]}
    if route == "/v1/systemone":
        asked = {**SYSTEMONE["questions"], "urgency": scale}
        body = last(route, ask_if={"urgency": ["1"]})
        body["questions"]["urgency"] = asked["urgency"]
    else:
        body = last(route, ask_if={"urgency": ["1"]})
        levels = [{"label": label} for label in scale["criteria"]]
        body["questions"][2] = {**body["questions"][2], "levels": levels}
    path, message = fault(http.post(route, json=body))
    assert path.startswith("questions") and "urgency" in path
    assert message == "may be level 1 or 2: write the level as a number"


@both
def test_a_condition_said_twice_says_one_thing(
    http: httpx.Client, server: ScriptedServer, route: str
) -> None:
    same = last(route, ask_if={"late": ["yes"]}, x_dicast={"ask_if": {"late": [True]}})
    assert http.post(route, json=same).status_code == 200
    assert len(server.requests[0].questions[3].ask_if) == 1
    # True and 1 are equal in Python.
    other = last(route, ask_if={"late": [1]}, x_dicast={"ask_if": {"late": [True]}})
    path, message = fault(http.post(route, json=other))
    assert path.endswith("ask_if") and "x_dicast" not in path
    assert message.startswith("says something else than questions")


@both
def test_some_of_the_questions(http: httpx.Client, server: ScriptedServer, route: str) -> None:
    body = last(route)
    said: list[dict[str, Any]] = [
        {"ask": ["urgency", "late"]},
        {"x_dicast": {"ask": ["urgency", "late"]}},
        {"ask": ["urgency", "late"], "x_dicast": {"ask": ["urgency", "late"]}},
    ]
    replies = [http.post(route, json={**body, **more}) for more in said]
    wanted = ["urgency", "late"] if route == "/v1/systemone" else ["2", "0"]
    assert [list(request.ask) for request in server.requests] == [wanted] * 3
    for reply in replies:
        answers = reply.json()["answers"]
        names = [*answers] if isinstance(answers, dict) else [answer["name"] for answer in answers]
        assert names == ["late", "urgency"]
    events = told(http.post(route, json={**body, **said[0]}, headers=EVENTS))
    assert events.names == ["answer", "answer", "done"]
    if route == "/v1/decisions":
        assert [event["index"] for event in events.all("answer")] == [0, 2]


@both
@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({"ask": []}, "ask"),
        ({"ask": "late"}, "ask"),
        ({"ask": [0]}, "ask[0]"),
        ({"ask": ["late"], "x_dicast": {"ask": ["late", "team"]}}, "ask"),
        ({"x_dicast": {"ask": []}}, "x_dicast.ask"),
    ],
)
def test_what_is_wrong_with_ask(
    http: httpx.Client, server: ScriptedServer, *, route: str, said: dict[str, Any], path: str
) -> None:
    found, _ = fault(http.post(route, json={**last(route), **said}))
    assert found.replace("[", ".").replace("]", "") == path.replace("[", ".").replace("]", "")
    assert not server.requests


def test_names_must_say_which_question(http: httpx.Client, server: ScriptedServer) -> None:
    """Names may repeat, so that a reference could have meant either of two."""
    body = last("/v1/decisions", ask_if={"late": [True], "nobody": [True], "0": [True]}, name="late")
    reply = http.post("/v1/decisions", json={**body, "ask": ["team", "late"]})
    assert reply.status_code == 400
    assert reply.json()["error"] == {
        "message": "questions[3].ask_if.late: 'late' is the name of 2 questions: give this one a name of its "
        "own; questions[3].ask_if.nobody: 'nobody' is the name of no question of this request; "
        "questions[3].ask_if.0: '0' is the name of no question of this request; "
        "ask[1]: 'late' is the name of 2 questions: give this one a name of its own",
        "type": "invalid_request_error",
        "param": "questions[3].ask_if.late",
        "code": None,
    }
    assert not server.requests


def test_an_unknown_id_is_left_to_the_server(http: httpx.Client, server: ScriptedServer) -> None:
    body = {**last("/v1/systemone", ask_if={"nobody": ["yes", 1]}), "ask": ["nobody"]}
    assert http.post("/v1/systemone", json=body).status_code == 200
    (condition,) = server.requests[0].questions[3].ask_if
    assert (condition.key, list(server.requests[0].ask)) == ("nobody", ["nobody"])
    assert [value.WhichOneof("value") for value in condition.any_of] == ["string_value", "level"]
