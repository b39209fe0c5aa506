"""A body of /v1/decisions: its shape, and the protobuf that it becomes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, Tag, ValidationError
from pydantic_core import PydanticCustomError

from dicast import jsontext
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast_gateway.body import repeated_key
from dicast_gateway.content import FewFaults, Shape, said
from dicast_gateway.decisions.items import Input, to_state
from dicast_gateway.decisions.names import Names
from dicast_gateway.decisions.parts import TAGS, Instructions, one_of, to_content, type_tag
from dicast_gateway.errors import from_schema, invalid
from dicast_gateway.plugins import OfPlugin, is_of_plugin
from dicast_gateway.settings import AnyQuestion, WithSettings


def _check_value(node: Any) -> Any:
    if not isinstance(node, str | bool):
        raise PydanticCustomError("option_value", "Input should be a string or a boolean")
    return node


class Option(Shape):
    """One option; `"true"` and `true` are two."""

    value: Annotated[Any, PlainValidator(_check_value)]
    description: str = ""


class Level(Shape):
    """One level of a scale."""

    label: str
    description: str = ""


class Predicate(AnyQuestion):
    """A yes/no question."""

    type: Literal["predicate"]
    instructions: Instructions
    name: str = ""


class Choice(AnyQuestion):
    """A choice among options, in the order of the prompt."""

    type: Literal["choice"]
    instructions: Instructions
    choices: Annotated[list[Option], FewFaults]
    name: str = ""


class Score(AnyQuestion):
    """A scale, lowest level first."""

    type: Literal["score"]
    instructions: Instructions
    levels: Annotated[list[Level], FewFaults]
    name: str = ""


class PluginQuestion(OfPlugin):
    """A question of a type that a plugin of the server has, with the plugin's own fields."""

    instructions: Instructions | None = None
    name: str = ""


def _question_tag(node: Any) -> str | None:
    return "plugin" if is_of_plugin(node) else type_tag(node)


AnyType = Predicate | Choice | Score | PluginQuestion
Question = Annotated[
    Annotated[Predicate, Tag("<predicate>")]
    | Annotated[Choice, Tag("<choice>")]
    | Annotated[Score, Tag("<score>")]
    | Annotated[PluginQuestion, Tag("<plugin>")],
    one_of(_question_tag, "a question of type predicate, choice or score"),
]


class PromptCacheOptions(Shape):
    """Hints for a prompt cache. The prefix store keeps what it can, so they change nothing."""

    mode: Literal["implicit", "explicit"] | None = None
    ttl: Literal["30m"] = "30m"


class Body(WithSettings):
    """A whole request."""

    model: str = ""
    input: Input
    questions: Annotated[list[Question], Field(min_length=1), FewFaults]
    prompt_cache_key: str | None = None
    prompt_cache_options: PromptCacheOptions | None = None
    safety_identifier: str | None = None


def read(tree: jsontext.Object) -> service_pb.DecideRequest:
    """The protobuf of a parsed body. Raises GatewayError where its shape is wrong."""
    _refuse_other_dialects(tree)
    _refuse_repeated_keys(tree.get("input"))
    try:
        body = Body.model_validate(tree)
    except ValidationError as error:
        raise from_schema(error, TAGS) from None
    questions = [_question(index, question) for index, question in enumerate(body.questions)]
    names = Names(questions)
    for index, asked in enumerate(body.questions):
        questions[index].ask_if.extend(asked.conditions(("questions", index), names.find))
    ask = names.keys(body.asked())
    names.check()
    return service_pb.DecideRequest(
        model=body.model,
        state=to_state(body.input),
        questions=questions,
        options=body.options(("prompt_cache_key", body.prompt_cache_key)),
        end_user=body.safety_identifier or "",
        ask=ask,
    )


def _refuse_other_dialects(tree: jsontext.Object) -> None:
    """Two other services take bodies of their own on this path: the sentence says where those are at home."""
    if not isinstance(tree.get("questions"), jsontext.Object):
        return
    if "state" in tree:
        message = "this is a body of System One: send it to /v1/systemone"
    else:
        message = (
            "questions by name are Gemini's form, which is not served: send an array of questions here, or "
            "state and questions to /v1/systemone"
        )
    raise invalid(("questions",), message, "other_dialect")


def _refuse_repeated_keys(evidence: jsontext.Value) -> None:
    # Only what an `input_json` part holds is the caller's own data; around it a key has one meaning.
    if (path := jsontext.find_repeated_key(_without_data(evidence))) is not None:
        raise repeated_key(("input", *path))


def _without_data(node: jsontext.Value) -> jsontext.Value:
    if isinstance(node, jsontext.Object):
        is_json_part = node.get("type") == "input_json"
        return jsontext.Object(
            (key, None if is_json_part and key == "data" else _without_data(value))
            for key, value in node.pairs
        )
    if isinstance(node, list):
        return [_without_data(item) for item in node]
    return node


def _question(index: int, asked: AnyType) -> pb.Question:
    # Names may repeat or be absent, so the place is the key.
    question = pb.Question(key=str(index), readout=asked.readout())
    if asked.instructions is not None:
        question.instructions.CopyFrom(to_content(asked.instructions))
    if said(asked, "name"):
        question.name = asked.name
    match asked:
        case Predicate():
            question.predicate.SetInParent()
        case Choice():
            question.choice.CopyFrom(pb.Choice(options=[_option(option) for option in asked.choices]))
        case Score():
            question.score.CopyFrom(pb.Score(levels=[_level(level) for level in asked.levels]))
        case PluginQuestion():
            question.extension.CopyFrom(asked.message())
    return question


def _option(option: Option) -> pb.Option:
    # A bool is tested for first: it is what tells `true` from `"true"`.
    value = (
        pb.OptionValue(bool_value=option.value)
        if isinstance(option.value, bool)
        else pb.OptionValue(string_value=option.value)
    )
    description = pb.Content(text=option.description) if said(option, "description") else None
    return pb.Option(value=value, description=description)


def _level(level: Level) -> pb.Level:
    description = pb.Content(text=level.description) if said(level, "description") else None
    return pb.Level(label=level.label, description=description)
