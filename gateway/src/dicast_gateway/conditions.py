"""Which questions are asked: `ask`, and `ask_if` with its answers as other servers write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, PlainValidator
from pydantic_core import PydanticCustomError

from dicast import jsontext
from dicast.jsontext import Path
from dicast.v1 import decision_pb2 as pb
from dicast_gateway.content import FewFaults
from dicast_gateway.errors import invalid

FIELD = "ask_if"
MAX_LEVEL = 2**32 - 1
"""The largest number that the contract has for a level; no scale is as long."""

_YES_NO = {"yes": True, "no": False}

Find = Callable[[str, Path], pb.Question | None]
"""The question that a condition names; None where there is none. The path is that of the condition."""


def _check_answer(node: Any) -> Any:
    if isinstance(node, str | bool):
        return node
    if isinstance(node, jsontext.Number) and node.is_integer_text and 0 <= node <= MAX_LEVEL:
        return int(node.text)
    raise PydanticCustomError(
        "answer_value", "Input should be a string, a boolean or a whole number from 0 on"
    )


AnswerName = Annotated[Any, PlainValidator(_check_answer)]
AskIf = Annotated[
    dict[str, Annotated[list[AnswerName], Field(min_length=1), FewFaults]],
    FewFaults,
]
"""Other questions with the answers under which this one is asked."""

Ask = Annotated[list[str], Field(min_length=1), FewFaults]
"""The questions to ask."""


def to_conditions(ask_if: Mapping[str, Sequence[Any]], path: Path, find: Find) -> list[pb.Condition]:
    """Conditions as protobuf.

    Raises:
        GatewayError: an answer may be two levels of a scale.
    """
    conditions = []
    for name, wanted in ask_if.items():
        here = (*path, name)
        question = find(name, here)
        conditions.append(
            pb.Condition(
                key=name if question is None else question.key,
                any_of=[_answer(node, question, (*here, place)) for place, node in enumerate(wanted)],
            )
        )
    return conditions


def locate(question: pb.Question, steps: Sequence[str | int], name: Callable[[str], str]) -> Path:
    """Where a field of a protobuf question's conditions is in its JSON; `name` is a key's name there."""
    match steps:
        case [int(place), *rest] if place < len(question.ask_if):
            return (
                FIELD,
                name(question.ask_if[place].key),
                *[step for step in rest if isinstance(step, int)],
            )
        case _:
            return (FIELD,)


def _answer(node: str | bool | int, question: pb.Question | None, path: Path) -> pb.AnswerValue:
    """An answer with the type that it has for this question; the server refuses what cannot be one."""
    if isinstance(node, bool):
        return pb.AnswerValue(bool_value=node)
    if isinstance(node, int):
        return pb.AnswerValue(level=node)
    match None if question is None else question.WhichOneof("type"):
        case "predicate" if node in _YES_NO:
            return pb.AnswerValue(bool_value=_YES_NO[node])
        case "score" if question is not None:
            levels = _levels(node, question.score.levels)
            if len(levels) > 1:
                shown = " or ".join(map(str, sorted(levels)))
                raise invalid(path, f"may be level {shown}: write the level as a number", "ambiguous_level")
            if levels:
                return pb.AnswerValue(level=levels.pop())
    return pb.AnswerValue(string_value=node)


def _levels(text: str, levels: Sequence[pb.Level]) -> set[int]:
    """The levels that a text may mean: by its place, or by what the level is called."""
    return {
        place
        for place, level in enumerate(levels)
        if text in (str(place), level.label if level.HasField("label") else _said(level.description))
    }


def _said(description: pb.Content) -> str | None:
    return description.text if description.WhichOneof("kind") == "text" else None
