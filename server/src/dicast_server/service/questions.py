"""The questions of a request: their types, options, conditions, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dicast import jsontext
from dicast.v1 import decision_pb2 as pb
from dicast_server.decisions.questions import (
    Choice,
    Extension,
    Level,
    Option,
    Predicate,
    Question,
    QuestionType,
    Score,
)
from dicast_server.decisions.types import FieldError
from dicast_server.service.conditions import read_conditions
from dicast_server.service.contents import Faults, read_content, read_object
from dicast_server.service.limits import Limits
from dicast_server.service.registry import Registry


def read_questions(
    questions: Sequence[pb.Question], limits: Limits, registry: Registry, faults: Faults
) -> list[Question]:
    """All questions of a request, in its order; nothing where there are none or too many."""
    if not questions:
        faults.refuse("questions", "is empty: ask at least one question")
    if len(questions) > limits.questions:
        faults.limit("questions", f"has {len(questions)} questions; at most {limits.questions} are answered")
        return []
    keys: dict[str, int] = {}
    read: list[Question] = []
    for index, question in enumerate(questions):
        if not question.key:
            faults.refuse(f"questions[{index}].key", "is empty: give each question a key of its own")
        elif (earlier := keys.setdefault(question.key, index)) != index:
            faults.refuse(f"questions[{index}].key", f"repeats the key of questions[{earlier}]")
        read.append(_read_question(question, index, limits, registry, faults))
    return read_conditions(questions, read, keys, limits, faults)


def _read_question(
    question: pb.Question, index: int, limits: Limits, registry: Registry, faults: Faults
) -> Question:
    path = f"questions[{index}]"
    for place, setting in enumerate(question.extensions):
        faults.refuse(f"{path}.extensions[{place}]", f"no plugin of this server reads {setting.name!r}")
    instructions = None
    already = len(faults.invalid)
    if question.HasField("instructions"):
        instructions = read_content(question.instructions, f"{path}.instructions", faults)
    type_: QuestionType = Predicate()
    extension: Extension | None = None
    match question.WhichOneof("type"):
        case "predicate":
            type_ = _read_predicate(question.predicate, path, faults)
            if instructions is None and type_ == Predicate() and len(faults.invalid) == already:
                faults.refuse(
                    f"{path}.instructions",
                    "is missing: a predicate needs instructions or a criterion, or both",
                )
        case "choice":
            type_ = _read_choice(question.choice, f"{path}.choice", limits, faults)
        case "score":
            type_ = _read_score(question.score, f"{path}.score", limits, faults)
        case "extension":
            found = _read_extension(question.extension, f"{path}.extension", limits, registry, faults)
            if found is not None:
                extension, type_ = found
        case _:
            faults.refuse(path, "has no type: set predicate, choice or score")
    name = question.name if question.HasField("name") else None
    return Question(index, question.key, name, instructions, type_, (), extension)


def _read_predicate(predicate: pb.Predicate, path: str, faults: Faults) -> Predicate:
    when_true = when_false = None
    if predicate.HasField("when_true"):
        when_true = read_content(predicate.when_true, f"{path}.predicate.when_true", faults)
    if predicate.HasField("when_false"):
        when_false = read_content(predicate.when_false, f"{path}.predicate.when_false", faults)
    return Predicate(when_true, when_false)


def _read_choice(choice: pb.Choice, path: str, limits: Limits, faults: Faults) -> Choice:
    _check_options(len(choice.options), path, limits, faults.limit)
    values: dict[tuple[str, str | bool], int] = {}
    options: list[Option] = []
    for index, option in enumerate(choice.options[: limits.options]):
        where = f"{path}.options[{index}]"
        kind = option.value.WhichOneof("value")
        value: str | bool = ""
        if kind is None:
            faults.refuse(f"{where}.value", "is missing: set string_value or bool_value")
        else:
            value = option.value.bool_value if kind == "bool_value" else option.value.string_value
            if (earlier := values.setdefault((kind, value), index)) != index:
                faults.refuse(f"{where}.value", f"repeats the value of options[{earlier}]")
        description = None
        if option.HasField("description"):
            description = read_content(option.description, f"{where}.description", faults)
        options.append(Option(value, description))
    return Choice(tuple(options))


def _read_score(score: pb.Score, path: str, limits: Limits, faults: Faults) -> Score:
    _check_levels(len(score.levels), path, limits, faults.limit)
    levels: list[Level] = []
    for index, level in enumerate(score.levels[: limits.levels]):
        where = f"{path}.levels[{index}]"
        if not level.HasField("label") and not level.HasField("description"):
            faults.refuse(where, "has neither a label nor a description")
        description = None
        if level.HasField("description"):
            description = read_content(level.description, f"{where}.description", faults)
        levels.append(Level(level.label if level.HasField("label") else None, description))
    return Score(tuple(levels))


def _read_extension(
    question: pb.ExtensionQuestion, path: str, limits: Limits, registry: Registry, faults: Faults
) -> tuple[Extension, QuestionType] | None:
    type_ = registry.extension(question.type)
    if type_ is None:
        known = ", ".join(registry.extensions()) or "none"
        faults.refuse(
            f"{path}.type",
            f"no plugin of this server answers questions of type {question.type!r}; it has {known}",
        )
        return None
    body = read_object(question.json, f"{path}.json", faults)
    if body is None:
        return None
    try:
        own, asked = type_.read(body)
    except FieldError as error:
        faults.refuse(jsontext.show_path((f"{path}.json", *error.path)), str(error))
        return None
    match asked:
        case Choice(options=options):
            _check_options(len(options), f"{path}.json", limits, faults.limit)
        case Score(levels=levels):
            _check_levels(len(levels), f"{path}.json", limits, faults.limit)
    return Extension(question.type, own), asked


def _check_options(count: int, path: str, limits: Limits, refuse: Callable[[str, str], None]) -> None:
    if count < 2:
        refuse(f"{path}.options", f"has {_counted(count, 'option')}; a choice needs 2 at least")
    elif count > limits.options:
        refuse(f"{path}.options", f"has {count} options; at most {limits.options} are read")


def _check_levels(count: int, path: str, limits: Limits, refuse: Callable[[str, str], None]) -> None:
    if count < 2:
        refuse(f"{path}.levels", f"has {_counted(count, 'level')}; a score needs 2 at least")
    elif count > limits.levels:
        refuse(f"{path}.levels", f"has {count} levels; at most {limits.levels} are read")


def _counted(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"
