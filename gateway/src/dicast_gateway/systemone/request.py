"""A body of /v1/systemone: its shape, and the protobuf that it becomes."""

from __future__ import annotations

from types import NoneType
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from dicast import jsontext
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast_gateway.content import Content, FewFaults, Shape, said, to_content, to_state, unserved
from dicast_gateway.dialect import Asked
from dicast_gateway.errors import from_schema
from dicast_gateway.settings import QuestionSettings, Settings, WithCondition, WithSettings


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


class Noul(WithCondition):
    """A yes/no question."""

    type: Literal["noul"]
    instructions: Content | None = None
    x_dicast: QuestionSettings | None = None
    criteria: Annotated[NoulCriteria | None, _expect((dict, NoneType), _NOUL)] = None


class Choice(WithCondition):
    """A choice: option names with their descriptions, in the order of the prompt."""

    type: Literal["choice"]
    instructions: Content | None = None
    x_dicast: QuestionSettings | None = None
    criteria: Annotated[dict[str, Content | None], Field(min_length=1), FewFaults, _expect((dict,), _CHOICE)]


class Score(WithCondition):
    """A scale: descriptions of the levels, lowest first."""

    type: Literal["score"]
    instructions: Content | None = None
    x_dicast: QuestionSettings | None = None
    criteria: Annotated[list[Content | None], Field(min_length=1), FewFaults, _expect((list,), _SCORE)]


Question = Annotated[Noul | Choice | Score, Field(discriminator="type")]


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
        raise from_schema(error) from None
    request = service_pb.DecideRequest(
        model=body.model,
        state=to_state(body.state),
        questions=[_question(key, question) for key, question in body.questions.items()],
        options=body.options(),
    )
    return Asked(request, partial=body.x_dicast is not None and bool(body.x_dicast.partial))


def _question(key: str, asked: Noul | Choice | Score) -> pb.Question:
    question = pb.Question(key=key)
    if said(asked, "instructions"):
        question.instructions.CopyFrom(to_content(asked.instructions))
    if asked.x_dicast is not None and asked.x_dicast.readout is not None:
        question.readout.CopyFrom(asked.x_dicast.readout.message())
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
    return question


def _predicate(criteria: NoulCriteria | None) -> pb.Predicate:
    if criteria is None:
        return pb.Predicate()
    return pb.Predicate(
        when_true=to_content(criteria.true) if said(criteria, "true") else None,
        when_false=to_content(criteria.false) if said(criteria, "false") else None,
    )
