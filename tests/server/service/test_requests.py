"""What a request may hold: each fault is found, with the path of its field, before anything is planned."""

import hashlib
from typing import Any

import grpc
import pytest
from tiny_server import REGISTRY, choice, json, predicate, request, score, text

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast_server.decisions.evidence import Message, ToolCall, ToolResult, state_text
from dicast_server.decisions.questions import (
    Choice,
    Json,
    Level,
    Option,
    Predicate,
    Score,
)
from dicast_server.readouts.candidates import CandidatesSettings
from dicast_server.readouts.letters import LettersSettings
from dicast_server.readouts.profile import OptionStyle
from dicast_server.service.failures import Failure, to_status
from dicast_server.service.limits import Limits
from dicast_server.service.registry import ChosenReadout
from dicast_server.service.requests import read_request

LIMITS = Limits()


def refused(message: service_pb.DecideRequest) -> Failure:
    with pytest.raises(Failure) as caught:
        read_request(message, LIMITS, REGISTRY)
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT
    return caught.value


def with_state(state: pb.State) -> service_pb.DecideRequest:
    return service_pb.DecideRequest(state=state, questions=[predicate()])


def with_question(question: pb.Question) -> service_pb.DecideRequest:
    return service_pb.DecideRequest(state=pb.State(text="s"), questions=[question])


def options(count: int) -> pb.Question:
    return choice(values=[f"o{n:03}" for n in range(count)])


def items(*items: pb.InputItem) -> pb.State:
    return pb.State(items=pb.InputItems(items=items))


def said(role: "pb.Message.Role.ValueType", content: pb.Content) -> pb.InputItem:
    return pb.InputItem(message=pb.Message(role=role, content=content))


OPTION = pb.Option(value=pb.OptionValue(string_value="a"))

BAD: list[tuple[str, service_pb.DecideRequest, str, str, str]] = [
    ("no state", service_pb.DecideRequest(questions=[predicate()]), "state", "is missing", "INVALID"),
    ("null state", with_state(pb.State(json="null")), "state", "is null", "INVALID"),
    ("broken state", with_state(pb.State(json='{"a": ')), "state", "is not JSON", "INVALID"),
    ("NaN in the state", with_state(pb.State(json='{"a": [NaN]}')), "state", "NaN", "INVALID"),
    ("infinite number", with_state(pb.State(json="1e999")), "state", "double", "INVALID"),
    ("lone surrogate", with_state(pb.State(json='{"a": "\\ud83d"}')), "state", "a: holds a lone", "INVALID"),
    ("deep state", with_state(pb.State(json="[" * 1500 + "]" * 1500)), "state", "deeper", "INVALID"),
    ("no items", with_state(items()), "state.items", "is empty", "INVALID"),
    (
        "item without kind",
        with_state(items(pb.InputItem())),
        "state.items[0]",
        "is empty",
        "INVALID",
    ),
    (
        "nobody speaks",
        with_state(items(said(pb.Message.ROLE_UNSPECIFIED, text("x")))),
        "state.items[0].message.role",
        "must be user",
        "INVALID",
    ),
    (
        "result without call",
        with_state(items(pb.InputItem(result=pb.ToolResult(call_id="c", output=text("x"))))),
        "state.items[0].result.call_id",
        "names no earlier call",
        "INVALID",
    ),
    (
        "image",
        with_state(
            items(
                said(
                    pb.Message.ROLE_USER,
                    pb.Content(parts=pb.ContentParts(parts=[pb.ContentPart(image=pb.Image(data=b"x"))])),
                )
            )
        ),
        "state.items[0].message.content.parts[0]",
        "images are not read",
        "NOT_SUPPORTED",
    ),
    ("no questions", service_pb.DecideRequest(state=pb.State(text="s")), "questions", "is empty", "INVALID"),
    (
        "401 questions",
        request(*[predicate(str(n)) for n in range(401)]),
        "questions",
        "has 401 questions; at most 400",
        "LIMIT_EXCEEDED",
    ),
    ("no key", with_question(predicate("")), "questions[0].key", "is empty", "INVALID"),
    ("equal keys", request(predicate("a"), score("a")), "questions[1].key", "repeats", "INVALID"),
    ("no type", with_question(pb.Question(key="q")), "questions[0]", "has no type", "INVALID"),
    (
        "unknown type",
        with_question(pb.Question(key="q", extension=pb.ExtensionQuestion(type="box", json="{}"))),
        "questions[0].extension.type",
        "type 'box'",
        "INVALID",
    ),
    (
        "predicate about nothing",
        with_question(pb.Question(key="q", predicate=pb.Predicate())),
        "questions[0].instructions",
        "is missing",
        "INVALID",
    ),
    (
        "predicate about null",
        with_question(pb.Question(key="q", instructions=json("null"), predicate=pb.Predicate())),
        "questions[0].instructions",
        "is missing",
        "INVALID",
    ),
    (
        "empty content",
        with_question(pb.Question(key="q", instructions=pb.Content(), predicate=pb.Predicate())),
        "questions[0].instructions",
        "is empty",
        "INVALID",
    ),
    (
        "repeated key in instructions",
        with_question(pb.Question(key="q", instructions=json('{"a":1,"a":2}'), predicate=pb.Predicate())),
        "questions[0].instructions",
        "repeats the key 'a'",
        "INVALID",
    ),
    (
        "broken criterion",
        with_question(pb.Question(key="q", predicate=pb.Predicate(when_true=json("{")))),
        "questions[0].predicate.when_true",
        "is not JSON",
        "INVALID",
    ),
    (
        "no options",
        with_question(options(0)),
        "questions[0].choice.options",
        "has no options",
        "LIMIT_EXCEEDED",
    ),
    (
        "one option",
        with_question(options(1)),
        "questions[0].choice.options",
        "has 1 option;",
        "LIMIT_EXCEEDED",
    ),
    ("256 options", with_question(options(256)), "questions[0].choice.options", "255", "LIMIT_EXCEEDED"),
    (
        "equal options",
        with_question(choice(values=["a", "b", "a"])),
        "questions[0].choice.options[2].value",
        "repeats the value of options[0]",
        "INVALID",
    ),
    (
        "equal booleans",
        with_question(choice(values=[True, True])),
        "questions[0].choice.options[1].value",
        "repeats",
        "INVALID",
    ),
    (
        "option without value",
        with_question(pb.Question(key="q", choice=pb.Choice(options=[pb.Option(), OPTION]))),
        "questions[0].choice.options[0].value",
        "is missing",
        "INVALID",
    ),
    ("one level", with_question(score(labels=["a"])), "questions[0].score.levels", "has 1", "LIMIT_EXCEEDED"),
    (
        "eleven levels",
        with_question(score(labels=list("abcdefghijk"))),
        "questions[0].score.levels",
        "has 11 levels; at most 10",
        "LIMIT_EXCEEDED",
    ),
    (
        "level of nothing",
        with_question(pb.Question(key="q", score=pb.Score(levels=[pb.Level(), pb.Level(label="x")]))),
        "questions[0].score.levels[0]",
        "neither a label nor a description",
        "INVALID",
    ),
    (
        "readout of no plugin",
        request(readout=pb.Readout(extension=pb.Extension(name="x_box"))),
        "options.readout.extension.name",
        "no readout of this server; it has",
        "INVALID",
    ),
    (
        "candidates of a request",
        request(readout=pb.Readout(candidates=pb.CandidatesReadout(texts=["a", "b"]))),
        "options.readout.candidates.texts",
        "belong to one question",
        "INVALID",
    ),
    ("mode", request(mode=9), "options.mode", "9 is no mode", "INVALID"),
    ("no orders", request(orders=0), "options.orders", "must be 1 to 32", "INVALID"),
    ("33 orders", request(orders=33), "options.orders", "at most 32", "LIMIT_EXCEEDED"),
    *[
        (f"temperature {value}", request(temperature=value), "options.temperature", "from 0.05", "INVALID")
        for value in (0.0, -1.0, 1e-308, 1e308, float("nan"), float("inf"), 0.049, 20.1)
    ],
    (
        "abstain",
        request(abstain=pb.Abstain(min_confidence=float("nan"))),
        "options.abstain.min_confidence",
        "from 0 to 1",
        "INVALID",
    ),
    (
        "plugin of a request",
        service_pb.DecideRequest(
            state=pb.State(text="s"), questions=[predicate()], extensions=[pb.Extension(name="x", json="1")]
        ),
        "extensions[0]",
        "no plugin",
        "INVALID",
    ),
]


@pytest.mark.parametrize(
    ("message", "path", "problem", "reason"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_faults(message: service_pb.DecideRequest, path: str, problem: str, reason: str) -> None:
    failure = refused(message)
    assert failure.reason == reason
    (violation,) = failure.violations
    assert violation.field == path
    assert problem in violation.description


def test_all_faults_are_told_at_once_and_the_gravest_names_the_reason() -> None:
    failure = refused(
        service_pb.DecideRequest(
            questions=[
                options(256),
                predicate(""),
                choice("x", readout=pb.Readout(extension=pb.Extension(name="x_box"))),
            ]
        )
    )
    assert {violation.field for violation in failure.violations} == {
        "state",
        "questions[0].choice.options",
        "questions[1].key",
        "questions[2].readout.extension.name",
    }
    assert failure.reason == "INVALID"
    assert failure.message.startswith("state: is missing")
    assert failure.message.endswith("(and 3 more)")


def test_a_thousand_faults_still_fit_into_a_status() -> None:
    questions = [
        pb.Question(key="é" * 5000, extension=pb.ExtensionQuestion(type="😀\n" * 2000)) for _ in range(200)
    ]
    failure = refused(service_pb.DecideRequest(questions=questions))
    assert len(failure.violations) > 200
    status = to_status(failure, "r" * 128)
    assert status.ByteSize() < 6 * 1024


@pytest.mark.parametrize("temperature", [0.05, 1.0, 20.0])
def test_temperatures_within_the_range(temperature: float) -> None:
    assert read_request(request(temperature=temperature), LIMITS, REGISTRY).options.temperature == temperature


def test_what_is_said_and_what_is_not_stay_apart() -> None:
    message = request(
        pb.Question(key="a", predicate=pb.Predicate(when_true=text(""))),
        pb.Question(
            key="b",
            name="",
            choice=pb.Choice(
                options=[
                    pb.Option(value=pb.OptionValue(string_value="true"), description=json("null")),
                    pb.Option(value=pb.OptionValue(bool_value=True), description=text("")),
                    pb.Option(value=pb.OptionValue(string_value=""), description=json('{"z": 1.0, "a": []}')),
                ]
            ),
        ),
        pb.Question(
            key="c",
            score=pb.Score(
                levels=[pb.Level(label="", description=text("d")), pb.Level(description=json("7"))]
            ),
        ),
    )
    first, second, third = [asked.question for asked in read_request(message, LIMITS, REGISTRY).questions]
    assert first.instructions is None
    assert first.name is None
    assert first.type == Predicate("", None)
    assert second.name == ""
    assert isinstance(second.type, Choice)
    assert second.type.options[:2] == (Option("true", None), Option(True, ""))
    assert isinstance(second.type.options[2].description, Json)
    assert isinstance(third.type, Score)
    assert third.type.levels[0] == Level("", "d")


def test_a_repeated_key_is_evidence_in_a_state_and_a_fault_elsewhere() -> None:
    state = read_request(with_state(pb.State(json='{"a": 1, "a": 2}')), LIMITS, REGISTRY).state
    assert isinstance(state, Json)


@pytest.mark.parametrize("value", ["", "{}", "[]", "false", "0", '""'])
def test_any_json_but_null_is_a_state(value: str) -> None:
    if value:
        read_request(with_state(pb.State(json=value)), LIMITS, REGISTRY)
    read_request(with_state(pb.State(text=value)), LIMITS, REGISTRY)


def test_the_readout_of_a_question_comes_before_that_of_the_request() -> None:
    bracket = pb.Readout(letters=pb.LettersReadout(style=pb.LettersReadout.STYLE_BRACKET))
    texts = ["It is.", "It is not."]
    own = pb.Readout(candidates=pb.CandidatesReadout(texts=texts, normalize_length=True))
    message = request(choice("a"), choice("b", readout=own), readout=bracket)
    first, second = (asked.readout for asked in read_request(message, LIMITS, REGISTRY).questions)
    assert first == ChosenReadout(REGISTRY.readouts["letters"], LettersSettings(OptionStyle.BRACKET))
    candidates = CandidatesSettings(normalize_length=True, texts=tuple(texts))
    assert second == ChosenReadout(REGISTRY.readouts["candidates"], candidates)
    assert [asked.readout for asked in read_request(request(), LIMITS, REGISTRY).questions] == [None] * 3


def test_orders_are_limited_together_with_the_questions() -> None:
    questions = [predicate(str(n)) for n in range(33)]
    assert read_request(request(*questions[:32], orders=32), LIMITS, REGISTRY).options.orders == 32
    failure = refused(request(*questions, orders=32))
    assert failure.reason == "LIMIT_EXCEEDED"
    assert "1056 passes; at most 1024" in failure.message


def test_the_state_is_hashed_as_it_was_sent() -> None:
    def hashed(state: pb.State) -> str:
        return read_request(with_state(state), LIMITS, REGISTRY).state_hash

    assert hashed(pb.State(text="é")) == hashlib.sha256("é".encode()).hexdigest()
    assert hashed(pb.State(json='{"a":1}')) != hashed(pb.State(json='{"a": 1}'))
    assert len(hashed(items(said(pb.Message.ROLE_USER, text("x"))))) == 64


def test_the_limit_itself_is_allowed() -> None:
    read_request(request(*[predicate(str(n)) for n in range(400)]), LIMITS, REGISTRY)
    read_request(with_question(options(255)), LIMITS, REGISTRY)
    read_request(with_question(score(labels=list("abcdefghij"))), LIMITS, REGISTRY)


def parts(*parts: Any) -> pb.Content:
    return pb.Content(parts=pb.ContentParts(parts=[pb.ContentPart(**part) for part in parts]))


def test_user_messages_alone_are_shown_as_they_are() -> None:
    state = read_request(
        with_state(
            items(
                said(pb.Message.ROLE_USER, text("first")),
                said(pb.Message.ROLE_USER, parts({"text": "a"}, {"json": '{"b":1.0,"b":2}'}, {"text": ""})),
            )
        ),
        LIMITS,
        REGISTRY,
    ).state
    assert isinstance(state, tuple)
    assert state_text(state) == 'first\n\na\n{"b": 1.0, "b": 2}\n'


def test_a_conversation_says_who_speaks() -> None:
    state = read_request(
        with_state(
            items(
                said(pb.Message.ROLE_SYSTEM, text("Be brief.")),
                said(pb.Message.ROLE_USER, text("Where is parcel 7?")),
                pb.InputItem(call=pb.ToolCall(call_id="1", name="track", arguments='{"id": 7}')),
                pb.InputItem(
                    result=pb.ToolResult(call_id="1", output=parts({"text": "In"}, {"text": "Basel"}))
                ),
                pb.InputItem(call=pb.ToolCall(call_id="2", name="note", text="late")),
                said(pb.Message.ROLE_ASSISTANT, parts({"refusal": "I cannot say."})),
            )
        ),
        LIMITS,
        REGISTRY,
    ).state
    assert state == (
        Message("system", ("Be brief.",)),
        Message("user", ("Where is parcel 7?",)),
        ToolCall("track", '{"id": 7}'),
        ToolResult("track", ("In", "Basel")),
        ToolCall("note", "late"),
        Message("assistant", ("I cannot say.",)),
    )
    assert state_text(state) == (
        "[system]\nBe brief.\n\n[user]\nWhere is parcel 7?\n\n"
        '[call track]\n{"id": 7}\n\n[result track]\nIn\nBasel\n\n'
        "[call note]\nlate\n\n[assistant]\nI cannot say."
    )
