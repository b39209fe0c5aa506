"""Questions that wait for others, and those that are asked: what holds, and what is refused with its path."""

import pytest
from server.service.test_requests import LIMITS, refused
from tiny_server import REGISTRY, choice, predicate, request, score, text

from dicast.v1 import decision_pb2 as pb
from dicast_server.decisions.questions import Condition, Outcome
from dicast_server.service.requests import read_request


def condition(key: str, *wanted: pb.AnswerValue) -> pb.Condition:
    return pb.Condition(key=key, any_of=wanted)


TRUE, LEVEL = pb.AnswerValue(bool_value=True), pb.AnswerValue(level=1)


def waiting(*conditions: pb.Condition, key: str = "w") -> pb.Question:
    return pb.Question(key=key, instructions=text("?"), predicate=pb.Predicate(), ask_if=conditions)


def test_conditions_name_questions_by_key_and_values_by_kind() -> None:
    blue = pb.AnswerValue(string_value="b")
    message = request(
        waiting(condition("c", blue), condition("s", LEVEL), condition("p", TRUE)),
        predicate("p"),
        choice("c"),
        score("s"),
    )
    first = read_request(message, LIMITS, REGISTRY).questions[0].question
    assert first.ask_if == (
        Condition(2, (Outcome("string", "b"),)),
        Condition(3, (Outcome("level", 1),)),
        Condition(1, (Outcome("bool", True),)),
    )


CONDITIONS: list[tuple[str, list[pb.Question], str, str]] = [
    ("unknown key", [waiting(condition("x", TRUE))], "ask_if[0].key", "no question of this request"),
    ("no answers", [waiting(condition("p")), predicate("p")], "ask_if[0].any_of", "is empty"),
    ("no value", [waiting(condition("p", pb.AnswerValue())), predicate("p")], "any_of[0]", "is empty"),
    (
        "a level of a predicate",
        [waiting(condition("p", LEVEL)), predicate("p")],
        "any_of[0]",
        "true or false",
    ),
    (
        "a level too high",
        [waiting(condition("s", pb.AnswerValue(level=9))), score("s")],
        "any_of[0]",
        "level",
    ),
    (
        "no option",
        [waiting(condition("c", pb.AnswerValue(string_value="zz"))), choice("c")],
        "any_of[0]",
        "one of its options",
    ),
    ("a bool for a string", [waiting(condition("c", TRUE)), choice("c")], "any_of[0]", "options"),
    ("itself", [waiting(condition("w", TRUE))], "questions[0].ask_if", "in a circle"),
    (
        "a circle",
        [waiting(condition("v", TRUE)), waiting(condition("w", TRUE), key="v")],
        "questions[0].ask_if",
        "in a circle ('w', 'v')",
    ),
]


@pytest.mark.parametrize(
    ("questions", "path", "problem"), [case[1:] for case in CONDITIONS], ids=[case[0] for case in CONDITIONS]
)
def test_conditions_that_cannot_hold(questions: list[pb.Question], path: str, problem: str) -> None:
    failure = refused(request(*questions))
    (violation,) = failure.violations
    assert violation.field.endswith(path)
    assert problem in violation.description


def test_only_some_questions_are_asked_with_their_places() -> None:
    message = request(predicate("a"), waiting(condition("a", TRUE)), choice("c"))
    message.ask.extend(["c", "a"])
    asked = [each.question for each in read_request(message, LIMITS, REGISTRY).questions]
    assert [(question.index, question.key) for question in asked] == [(0, "a"), (2, "c")]


@pytest.mark.parametrize(
    ("ask", "path", "problem"),
    [
        (["x"], "ask[0]", "'x' is no question"),
        (["a", "a"], "ask[1]", "repeats 'a'"),
        (["w"], "questions[1].ask_if[0].key", "waits for 'a', which is not asked"),
    ],
)
def test_asking_for_what_cannot_be_asked(ask: list[str], path: str, problem: str) -> None:
    message = request(predicate("a"), waiting(condition("a", TRUE)))
    message.ask.extend(ask)
    (violation,) = refused(message).violations
    assert (violation.field, problem in violation.description) == (path, True)


def test_conditions_are_no_more_than_can_differ() -> None:
    many = waiting(*[condition("p", TRUE)] * 401, condition("p", *[TRUE] * 256))
    answers = waiting(condition("p", *[TRUE] * 256), key="v")
    message = request(many, answers, predicate("p"))
    message.ask.extend(["p"] * 401)
    failure = refused(message)
    assert failure.reason == "LIMIT_EXCEEDED"
    assert [violation.field for violation in failure.violations] == [
        "questions[0].ask_if",
        "questions[1].ask_if[0].any_of",
        "ask",
    ]
