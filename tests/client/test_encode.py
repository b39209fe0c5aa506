"""Python values to protobuf: nothing is lost, and what cannot be said is refused with its path."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dicast
from dicast import Choice, Json, Level, Option, Predicate, Request, Score, _encode, jsontext
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
STRUCTURED = st.lists(JSON, max_size=3) | st.dictionaries(TEXT, JSON, max_size=3) | NUMBERS | st.booleans()
CONTENT = TEXT | STRUCTURED | STRUCTURED.map(lambda value: Json(json.dumps(value)))
MAYBE = st.none() | CONTENT
VALUES = TEXT | st.booleans()
READOUTS = (
    st.none()
    | st.builds(dicast.Letters, st.sampled_from([None, "plain", "bracket"]), st.none() | st.booleans())
    | st.builds(dicast.Direct, st.booleans())
    | st.builds(dicast.Candidates, texts=st.lists(TEXT, max_size=3))
    | st.builds(dicast.Plugin, TEXT, st.dictionaries(TEXT, JSON, max_size=2))
)
SETTINGS: dict[str, Any] = {
    "name": st.none() | TEXT,
    "readout": READOUTS,
    "ask_if": st.dictionaries(TEXT, VALUES | st.lists(VALUES | st.integers(0, 9), min_size=1), max_size=2),
    "extensions": st.dictionaries(TEXT, JSON, max_size=2),
}
OPTIONS = st.dictionaries(VALUES, MAYBE, max_size=4) | st.lists(
    VALUES | st.builds(Option, VALUES, MAYBE), max_size=4
)
LEVELS = st.lists(CONTENT | st.builds(Level, st.none() | TEXT, MAYBE), max_size=4)
QUESTIONS = (
    st.builds(Predicate, MAYBE, when_true=MAYBE, when_false=MAYBE, **SETTINGS)
    | st.builds(Choice, MAYBE, OPTIONS, **SETTINGS)
    | st.builds(Score, MAYBE, LEVELS, **SETTINGS)
)


def said(content: pb.Content) -> Any:
    """What a Content says, in Python's terms."""
    if content.WhichOneof("kind") == "text":
        return ("text", content.text)
    return ("json", json.loads(content.json))


def meant(content: Any) -> Any:
    if isinstance(content, str):
        return ("text", content)
    return ("json", json.loads(content.text) if isinstance(content, Json) else content)


def as_level(given_level: Any) -> Level:
    if isinstance(given_level, Level):
        return given_level
    return Level(given_level) if isinstance(given_level, str) else Level(None, given_level)


def check_content(given_content: Any, message: Any, field: str) -> None:
    assert message.HasField(field) == (given_content is not None)
    if given_content is not None:
        assert said(getattr(message, field)) == meant(given_content)


@given(TEXT, QUESTIONS)
def test_every_part_of_a_question_is_sent(key: str, question: Any) -> None:
    (sent,) = _encode.questions({key: question})
    assert sent.key == key
    assert (sent.name if sent.HasField("name") else None) == question.name
    check_content(question.instructions, sent, "instructions")
    assert sent.HasField("readout") == (question.readout is not None)
    assert [each.key for each in sent.ask_if] == list(question.ask_if)
    assert [(each.name, json.loads(each.json)) for each in sent.extensions] == list(
        question.extensions.items()
    )
    match question:
        case Predicate():
            assert sent.WhichOneof("type") == "predicate"
            check_content(question.when_true, sent.predicate, "when_true")
            check_content(question.when_false, sent.predicate, "when_false")
        case Choice(options=options):
            assert sent.WhichOneof("type") == "choice"
            if isinstance(options, dict):
                pairs = [(value, Json("null") if text is None else text) for value, text in options.items()]
            else:
                pairs = [(o.value, o.description) if isinstance(o, Option) else (o, None) for o in options]
            assert len(sent.choice.options) == len(pairs)
            for option, (value, description) in zip(sent.choice.options, pairs, strict=True):
                kind = "bool_value" if isinstance(value, bool) else "string_value"
                assert option.value.WhichOneof("value") == kind
                assert getattr(option.value, kind) == value
                check_content(description, option, "description")
        case Score(levels=levels):
            assert sent.WhichOneof("type") == "score"
            for level, wanted_level in zip(sent.score.levels, levels, strict=True):
                wanted = as_level(wanted_level)
                assert (level.label if level.HasField("label") else None) == wanted.label
                check_content(wanted.description, level, "description")


@given(CONTENT, st.dictionaries(TEXT, QUESTIONS, max_size=3))
def test_a_request_survives_the_wire_byte_for_byte(state: Any, questions: dict[str, Any]) -> None:
    options = dicast.Options(temperature=0.1, seed=2**64 - 1, cache_salt="s", orders=32)
    request = _encode.decide_request(state, questions, model="m", options=options)
    wire = request.SerializeToString(deterministic=True)
    parsed = service_pb.DecideRequest.FromString(wire)
    assert parsed == request
    assert parsed.SerializeToString(deterministic=True) == wire


@given(STRUCTURED)
def test_a_json_state_keeps_order_and_value(value: Any) -> None:
    state = _encode.state(value)
    assert state.WhichOneof("kind") == "json"
    back = json.loads(state.json)
    assert back == value
    if isinstance(value, dict):
        assert list(back) == list(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": 2}, '{"b": 1, "a": 2}'),
        ({"id": 2**60, "big": 10**30}, '{"id": 1152921504606846976, "big": ' + str(10**30) + "}"),
        ([1, 1.0, True, None], "[1, 1.0, true, null]"),
        ({"quote": 'a"b\\\n\u2028é'}, '{"quote": "a\\"b\\\\\\n\u2028é"}'),
        ({}, "{}"),
        ([], "[]"),
        ({"": ""}, '{"": ""}'),
        (3, "3"),
        (False, "false"),
        (Json('{"a": 1.0, "a":  2}'), '{"a": 1.0, "a":  2}'),
    ],
)
def test_json_text(value: Any, text: str) -> None:
    assert _encode.state(value) == pb.State(json=text)


def test_text_is_text_even_where_it_looks_like_json() -> None:
    assert _encode.state('{"a": 1}') == pb.State(text='{"a": 1}')
    assert _encode.state("") == pb.State(text="")


def test_absent_null_and_empty_stay_apart() -> None:
    (plain, null, empty) = _encode.questions(
        {"a": Predicate(), "b": Predicate(Json("null")), "c": Predicate("")}
    )
    assert not plain.HasField("instructions")
    assert null.instructions == pb.Content(json="null")
    assert empty.instructions == pb.Content(text="") and empty.HasField("instructions")
    (choice,) = _encode.questions({"a": Choice(None, {"null": None, "empty": ""})})
    assert choice.choice.options[0].description == pb.Content(json="null")
    assert choice.choice.options[1].description == pb.Content(text="")
    (choice,) = _encode.questions({"a": Choice(None, ["absent", Option("also")])})
    assert not any(option.HasField("description") for option in choice.choice.options)


def test_ask_if_keeps_the_types_of_answers() -> None:
    (sent,) = _encode.questions({"a": Predicate("?", ask_if={"b": True, "c": ["x", 2], "d": 0})})
    assert list(sent.ask_if) == [
        pb.Condition(key="b", any_of=[pb.AnswerValue(bool_value=True)]),
        pb.Condition(key="c", any_of=[pb.AnswerValue(string_value="x"), pb.AnswerValue(level=2)]),
        pb.Condition(key="d", any_of=[pb.AnswerValue(level=0)]),
    ]


@pytest.mark.parametrize(
    ("readout", "sent"),
    [
        (dicast.Letters(), pb.Readout(letters=pb.LettersReadout())),
        (dicast.Letters(correct_prior=False), pb.Readout(letters=pb.LettersReadout(correct_prior=False))),
        (dicast.Direct(hide_names=True), pb.Readout(direct=pb.DirectReadout(hide_names=True))),
        (
            dicast.Candidates("single_token", normalize_length=True, correct_prior=True, texts=("a", "b")),
            pb.Readout(
                candidates=pb.CandidatesReadout(
                    scoring=pb.CandidatesReadout.SCORING_SINGLE_TOKEN,
                    normalize_length=True,
                    correct_prior=True,
                    texts=["a", "b"],
                )
            ),
        ),
        (dicast.Plugin("x_digits"), pb.Readout(extension=pb.Extension(name="x_digits", json="{}"))),
        (
            dicast.Plugin("x_digits", {"base": 10}),
            pb.Readout(extension=pb.Extension(name="x_digits", json='{"base": 10}')),
        ),
    ],
)
def test_readouts_with_their_settings(readout: dicast.Readout, sent: pb.Readout) -> None:
    (question,) = _encode.questions([Predicate("?", readout=readout)])
    assert question.readout == sent
    assert encode(REQUEST | {"options": dicast.Options(readout=readout)}).options.readout == sent


def test_mode_and_ask() -> None:
    request = encode(REQUEST | {"options": dicast.Options(mode="independent"), "ask": ("q",)})
    assert request.options.mode == pb.MODE_INDEPENDENT
    assert list(request.ask) == ["q"]
    streamed = _encode.stream_request(Request("1", "x", {"q": Predicate("?")}, ask=["q"]))
    assert list(streamed.request.ask) == ["q"]


def test_messages_of_the_contract_are_taken_as_they_are() -> None:
    message = pb.Message(role=pb.Message.ROLE_USER, content=pb.Content(text="hi"))
    state = pb.State(items=pb.InputItems(items=[pb.InputItem(message=message)]))
    assert _encode.state(state) == state
    plugin = pb.Question(key="other", extension=pb.ExtensionQuestion(type="rank", json="{}"))
    (sent,) = _encode.questions({"mine": plugin})
    assert (sent.key, sent.extension.type, plugin.key) == ("mine", "rank", "other")


BAD = "\ud800"
# Without their types, as a program that no type checker reads sees them.
choice: Any = Choice
score: Any = Score
predicate: Any = Predicate
level: Any = Level
options: Any = dicast.Options
REQUEST: dict[str, Any] = {"state": "x", "questions": {"q": predicate("?")}}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"state": None}, TypeError, "state: None is no state; an empty one is an empty string"),
        ({"state": {"a": [float("nan")]}}, ValueError, "state.a[0]: nan is no JSON number"),
        ({"state": {"a": {1, 2}}}, ValueError, "state.a: a set has no JSON form"),
        ({"state": {"a": {1: 2}}}, ValueError, "state.a: has a key that is no string"),
        ({"state": object()}, ValueError, "state: a object has no JSON form"),
        ({"state": BAD}, ValueError, "state: holds a lone surrogate, which is no character"),
        ({"state": {"a": BAD}}, ValueError, "state.a: holds a lone surrogate, which is no character"),
        ({"questions": "q"}, TypeError, "questions takes a sequence, not str"),
        ({"questions": {"q": "Is it?"}}, TypeError, "questions.q takes Predicate, Choice or Score, not str"),
        ({"questions": {1: predicate()}}, TypeError, "questions takes str, not int"),
        ({"questions": [choice("?", "ab")]}, TypeError, "questions[0].options takes a sequence, not str"),
        (
            {"questions": [choice("?", ["a", 1])]},
            TypeError,
            "questions[0].options[1] takes str, bool or Option, not int",
        ),
        (
            {"questions": [choice("?", {"a": b""})]},
            ValueError,
            "questions[0].options[0].description: a bytes has no JSON form",
        ),
        ({"questions": [score("?", "ab")]}, TypeError, "questions[0].levels takes a sequence, not str"),
        (
            {"questions": [score("?", [level(1)])]},
            TypeError,
            "questions[0].levels[0].label takes str, not int",
        ),
        (
            {"questions": [predicate("?", ask_if=["a"])]},
            TypeError,
            "questions[0].ask_if takes a mapping of keys to answers, not list",
        ),
        (
            {"questions": [predicate("?", ask_if={"a": [1.5]})]},
            TypeError,
            "questions[0].ask_if.a[0] takes bool, str or int, not float",
        ),
        (
            {"questions": [predicate("?", readout="letters")]},
            TypeError,
            "questions[0].readout takes Letters, Direct, Candidates or Plugin, not str",
        ),
        (
            {"questions": [predicate(BAD)]},
            ValueError,
            "questions[0].instructions: holds a lone surrogate, which is no character",
        ),
        ({"options": {"seed": 1}}, TypeError, "options takes Options, not dict"),
        (
            {"options": options(detail="all")},
            ValueError,
            "options.detail: 'all' is none of None, 'none', 'basic', 'full'",
        ),
        (
            {"options": options(mode="alone")},
            ValueError,
            "options.mode: 'alone' is none of None, 'shared', 'independent'",
        ),
        (
            {"options": options(readout=dicast.Candidates(texts="ab"))},
            TypeError,
            "options.readout.texts takes a sequence, not str",
        ),
        (
            {"options": options(readout=dicast.Plugin("x_digits", {"base": {1}}))},
            ValueError,
            "options.readout.x_digits.base: a set has no JSON form",
        ),
        ({"ask": "q"}, TypeError, "ask takes a sequence, not str"),
        ({"ask": ["q", 1]}, TypeError, "ask[1] takes str, not int"),
        ({"model": None}, TypeError, "model takes str, not NoneType"),
    ],
)
def test_what_cannot_be_said_is_refused_with_its_path(
    change: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        encode(REQUEST | change)
    assert str(caught.value) == message


def encode(parts: dict[str, Any]) -> service_pb.DecideRequest:
    rest = {name: value for name, value in parts.items() if name not in ("state", "questions")}
    return _encode.decide_request(parts["state"], parts["questions"], **rest)


@pytest.mark.parametrize("options", [dicast.Options(seed=-1), dicast.Options(orders=2**32)])
def test_a_number_that_no_field_holds_is_refused_with_its_path(options: dicast.Options) -> None:
    with pytest.raises(ValueError, match=r"^options\.(seed|orders): "):
        encode(REQUEST | {"options": options})


def test_json_text_is_checked_when_it_is_made() -> None:
    with pytest.raises(jsontext.JsonError, match="is not JSON"):
        Json("{")
    with pytest.raises(TypeError, match="pass the value itself"):
        Json({"a": 1})  # type: ignore[arg-type]


def test_a_stream_takes_requests_alone() -> None:
    request = Request("1", "x", [Predicate("?")])
    assert _encode.stream_request(request).request == encode({"state": "x", "questions": [Predicate("?")]})
    with pytest.raises(TypeError, match="takes Request, not str"):
        _encode.stream_request("x")  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_time_to_live_is_a_number_of_seconds(seconds: float) -> None:
    with pytest.raises(ValueError, match="time_to_live_s"):
        _encode.prewarm_request("x", model="", time_to_live_s=seconds, cache_salt="")
