"""One labelled question, and how it is read from a row in System One's form."""

from __future__ import annotations

from dataclasses import dataclass

from dicast import jsontext
from dicast_server.calibration.kinds import BANDS, Kind, kind_of
from dicast_server.calibration.labels import RowFault, label_index
from dicast_server.decisions.questions import (
    Choice,
    Content,
    Json,
    Level,
    Option,
    Predicate,
    Question,
    QuestionType,
    Score,
)

MAX_OPTIONS = BANDS[-1].high
MAX_LEVELS = 10
_FIELDS = ("type", "instructions", "criteria")


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """A question about a state, and the index of the option that is right.

    `line` is where its row begins in the file, from 1. Rows of one `group` belong together (the same state,
    the same author): a fit never has some of them on both sides. A row without a group is one of its own.
    """

    id: str
    group: str
    line: int
    state: Content
    question: Question
    label: int

    @property
    def kind(self) -> Kind:
        """The question's type."""
        return kind_of(self.question.type)

    @property
    def options(self) -> int:
        """How many options the question has."""
        return self.question.options


def read_row(row: jsontext.Value, line: int) -> LabelledQuestion:
    """A row `{state, question: {type, instructions?, criteria?}, expected, group?, id?}`.

    `type` is noul or predicate, choice, or score, and `criteria` are as in System One. Other fields of a row
    mean nothing. A group may also be called `group_id`.

    Raises:
        RowFault: a field is missing or wrong.
    """
    if not isinstance(row, jsontext.Object):
        raise RowFault("is not an object {state, question, expected}")
    if row.repeated is not None:
        raise RowFault(f"{row.repeated}: occurs twice")
    for field in ("state", "question", "expected"):
        if row.get(field) is None:
            raise RowFault(f"{field}: is missing")
    state = _content(row["state"], "state")
    assert state is not None
    id_ = _name(row, "id") or f"line {line}"
    group = _name(row, "group") or _name(row, "group_id") or id_
    question = _question(row["question"], id_)
    return LabelledQuestion(id_, group, line, state, question, label_index(question.type, row["expected"]))


def _question(node: jsontext.Value, key: str) -> Question:
    if not isinstance(node, jsontext.Object):
        raise RowFault("question: is not an object {type, instructions, criteria}")
    if (path := jsontext.find_repeated_key(node)) is not None:
        raise RowFault(f"{jsontext.show_path(('question', *path))}: occurs twice")
    for field in node:
        if field not in _FIELDS:
            raise RowFault(f"question.{field}: is unknown; a question has {', '.join(_FIELDS)}")
    instructions = _content(node.get("instructions"), "question.instructions")
    criteria = node.get("criteria")
    type_: QuestionType
    match node.get("type"):
        case "noul" | "predicate":
            type_ = _predicate(criteria)
            if instructions is None and type_ == Predicate():
                raise RowFault("question: a predicate needs instructions or a criterion")
        case "choice":
            type_ = _choice(criteria)
        case "score":
            type_ = _score(criteria)
        case None:
            raise RowFault("question.type: is missing")
        case other:
            shown = jsontext.render(other)
            raise RowFault(f"question.type: {shown} is none of noul, predicate, choice, score")
    return Question(0, key, None, instructions, type_)


def _predicate(criteria: jsontext.Value) -> Predicate:
    if criteria is None:
        return Predicate()
    if not isinstance(criteria, jsontext.Object) or not set(criteria) <= {"true", "false"}:
        raise RowFault('question.criteria: a predicate has null or {"true": …, "false": …}')
    return Predicate(
        _content(criteria.get("true"), "question.criteria.true"),
        _content(criteria.get("false"), "question.criteria.false"),
    )


def _choice(criteria: jsontext.Value) -> Choice:
    if not isinstance(criteria, jsontext.Object):
        raise RowFault("question.criteria: a choice has an object, each option's name and its description")
    _check_count(len(criteria), MAX_OPTIONS, "options")
    return Choice(
        tuple(
            Option(name, _content(description, f"question.criteria.{name}"))
            for name, description in criteria.pairs
        )
    )


def _score(criteria: jsontext.Value) -> Score:
    if not isinstance(criteria, list):
        raise RowFault("question.criteria: a score has an array, a description per level, lowest first")
    _check_count(len(criteria), MAX_LEVELS, "levels")
    return Score(
        tuple(
            Level(None, _content(level, f"question.criteria[{index}]"))
            for index, level in enumerate(criteria)
        )
    )


def _check_count(count: int, most: int, noun: str) -> None:
    if not 2 <= count <= most:
        raise RowFault(f"question.criteria: has {count} {noun}; there must be 2 to {most}")


def _content(node: jsontext.Value, field: str) -> Content | None:
    if node is None or isinstance(node, str):
        return node
    if not isinstance(node, jsontext.Object | list):
        raise RowFault(f"{field}: must be a string, an object or an array")
    return Json(node)


def _name(row: jsontext.Object, field: str) -> str | None:
    node = row.get(field)
    if node is None or node == "":
        return None
    if isinstance(node, jsontext.Number):
        return node.text
    if not isinstance(node, str):
        raise RowFault(f"{field}: must be a string")
    return node
