"""A body of /v1/systemone: its shape, and the protobuf that it becomes."""

from __future__ import annotations

from types import NoneType
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError
from pydantic_core import PydanticCustomError

from dicast import jsontext
from dicast.jsontext import Path
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast_gateway.content import Content, FewFaults, Shape, said, to_content, to_state, unserved
from dicast_gateway.dialect import Asked
from dicast_gateway.errors import from_schema
from dicast_gateway.plugins import OfPlugin, is_of_plugin
from dicast_gateway.settings import AnyQuestion, Settings, WithSettings


def _expect(kinds: tuple[type, ...], wanted: str) -> BeforeValidator:
    """Criteria of another shape are the most common mistake: the message says which one is right."""

    def check(node: Any) -> Any:
        if not isinstance(node, kinds):
            raise PydanticCustomError("criteria_shape", "Input should be " + wanted)
        return node

    return BeforeValidator(check)


_NOUL = 'null or an object {"true": …, "false": …}, each a string, an object, an array or null'
_CHOICE = "an object with an entry per option: its name, and a description or null"
_SCORE = "an array with a description per level, lowest first"


class NoulCriteria(Shape):
    """What the two outcomes mean."""

    true: Content | None = None
    false: Content | None = None


class Noul(AnyQuestion):
    """A yes/no question."""

    type: Literal["noul"]
    instructions: Content | None = None
    criteria: Annotated[NoulCriteria | None, _expect((dict, NoneType), _NOUL)] = None


class Choice(AnyQuestion):
    """A choice: option names with their descriptions, in the order of the prompt."""

    type: Literal["choice"]
    instructions: Content | None = None
    criteria: Annotated[dict[str, Content | None], Field(min_length=1), FewFaults, _expect((dict,), _CHOICE)]


class Score(AnyQuestion):
    """A scale: descriptions of the levels, lowest first."""

    type: Literal["score"]
    instructions: Content | None = None
    criteria: Annotated[list[Content | None], Field(min_length=1), FewFaults, _expect((list,), _SCORE)]


class PluginQuestion(OfPlugin):
    """A question of a type that a plugin of the server has, with the plugin's own fields."""

    instructions: Content | None = None
    name: Annotated[Any, unserved("is of /v1/decisions: here a question has its id")] = None


_PLAIN, _PLUGIN = "<plain>", "<plugin>"

Question = Annotated[
    Annotated[Annotated[Noul | Choice | Score, Field(discriminator="type")], Tag(_PLAIN)]
    | Annotated[PluginQuestion, Tag(_PLUGIN)],
    Discriminator(lambda node: _PLUGIN if is_of_plugin(node) else _PLAIN),
]


class PartialSettings(Settings):
    """`x_dicast` at the top; `partial` leaves refused questions out instead of failing the request."""

    partial: bool | None = None


class Body(WithSettings):
    """A whole request. Unknown fields mean nothing here."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    model: str = ""
    state: Content
    questions: Annotated[dict[str, Question], Field(min_length=1), FewFaults]
    assets: Annotated[Any, unserved("images are not served yet: send the request without assets")] = None
    x_dicast: PartialSettings | None = None


def read(tree: jsontext.Object) -> Asked:
    """What a parsed body asks. Raises GatewayError where its shape is wrong."""
    try:
        body = Body.model_validate(tree)
    except ValidationError as error:
        raise from_schema(error).relocated(lambda path: _with_type(path, tree)) from None
    questions = [_question(key, question) for key, question in body.questions.items()]
    by_id = {question.key: question for question in questions}
    for question, asked in zip(questions, body.questions.values(), strict=True):
        path = ("questions", question.key, asked.type)
        question.ask_if.extend(asked.conditions(path, lambda key, _: by_id.get(key)))
    request = service_pb.DecideRequest(
        model=body.model,
        state=to_state(body.state),
        questions=questions,
        options=body.options(),
        ask=body.asked(),
    )
    return Asked(request, partial=body.x_dicast is not None and bool(body.x_dicast.partial))


def _with_type(path: Path, tree: Any) -> Path:
    """A path of pydantic with the question's type behind its id, whichever union that came from."""
    match path:
        case ("questions", str(key), str(member), *rest) if member == _PLAIN:
            return ("questions", key, *rest)
        case ("questions", str(key), str(member), *rest) if member == _PLUGIN:
            return ("questions", key, tree["questions"][key]["type"], *rest)
        case _:
            return path


def _question(key: str, asked: Noul | Choice | Score | PluginQuestion) -> pb.Question:
    question = pb.Question(key=key, readout=asked.readout())
    if said(asked, "instructions"):
        question.instructions.CopyFrom(to_content(asked.instructions))
    match asked:
        case Noul(criteria=criteria):
            question.predicate.CopyFrom(_predicate(criteria))
        case Choice(criteria=options):
            question.choice.options.extend(
                pb.Option(value=pb.OptionValue(string_value=name), description=to_content(description))
                for name, description in options.items()
            )
        case Score(criteria=levels):
            question.score.levels.extend(pb.Level(description=to_content(level)) for level in levels)
        case PluginQuestion():
            question.extension.CopyFrom(asked.message())
    return question


def _predicate(criteria: NoulCriteria | None) -> pb.Predicate:
    if criteria is None:
        return pb.Predicate()
    return pb.Predicate(
        when_true=to_content(criteria.true) if said(criteria, "true") else None,
        when_false=to_content(criteria.false) if said(criteria, "false") else None,
    )
