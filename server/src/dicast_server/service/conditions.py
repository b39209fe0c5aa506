"""Conditions between the questions of a request: `ask_if`, and `ask` for some of the questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dicast.v1 import decision_pb2 as pb
from dicast_server.decisions.questions import Choice, Condition, Outcome, Predicate, Question, Score
from dicast_server.decisions.stages import find_cycle
from dicast_server.service.contents import Faults
from dicast_server.service.limits import Limits


def read_conditions(
    messages: Sequence[pb.Question],
    questions: Sequence[Question],
    keys: Mapping[str, int],
    limits: Limits,
    faults: Faults,
) -> list[Question]:
    """The questions with their conditions; `keys` says at which index each key is."""
    read: list[Question] = []
    for message, question in zip(messages, questions, strict=True):
        conditions: list[Condition] = []
        # No more can differ: one a question, and an answer an option.
        if (count := len(message.ask_if)) > limits.questions:
            problem = f"has {count} conditions; at most {limits.questions} are read"
            faults.limit(f"questions[{question.index}].ask_if", problem)
        for place, condition in enumerate(message.ask_if[: limits.questions]):
            path = f"questions[{question.index}].ask_if[{place}]"
            if (count := len(condition.any_of)) > limits.options:
                faults.limit(f"{path}.any_of", f"has {count} answers; at most {limits.options} are read")
            other = keys.get(condition.key)
            if other is None:
                faults.refuse(f"{path}.key", f"{condition.key!r} is no question of this request")
                continue
            if not condition.any_of:
                faults.refuse(f"{path}.any_of", "is empty: list at least one answer")
            wanted = [
                _outcome(value, questions[other], f"{path}.any_of[{index}]", faults)
                for index, value in enumerate(condition.any_of[: limits.options])
            ]
            conditions.append(Condition(other, tuple(each for each in wanted if each is not None)))
        read.append(replace(question, ask_if=tuple(conditions)))
    if circle := find_cycle(read):
        shown = ", ".join(repr(_called(question)) for question in circle[:8])
        faults.refuse(
            f"questions[{circle[0].index}].ask_if",
            f"waits in a circle ({shown}): none of these questions can be asked first",
        )
    return read


def select(
    ask: Sequence[str], questions: Sequence[Question], limits: Limits, faults: Faults
) -> list[Question]:
    """The questions that are asked: those whose keys are listed, or all where none are."""
    if not ask:
        return list(questions)
    if len(ask) > limits.questions:
        faults.limit("ask", f"lists {len(ask)} questions; at most {limits.questions} are answered")
        return []
    places = {question.key: question.index for question in questions}
    asked: set[int] = set()
    for index, key in enumerate(ask):
        if (place := places.get(key)) is None:
            faults.refuse(f"ask[{index}]", f"{key!r} is no question of this request")
        elif place in asked:
            faults.refuse(f"ask[{index}]", f"repeats {key!r}")
        else:
            asked.add(place)
    for question in questions:
        for number, condition in enumerate(question.ask_if):
            if question.index in asked and condition.question not in asked:
                missing = _called(questions[condition.question])
                faults.refuse(
                    f"questions[{question.index}].ask_if[{number}].key",
                    f"waits for {missing!r}, which is not asked: list it under ask too",
                )
    return [question for question in questions if question.index in asked]


def _outcome(value: pb.AnswerValue, question: Question, path: str, faults: Faults) -> Outcome | None:
    """A value that an answer of the question can choose; None where it cannot."""
    match value.WhichOneof("value"):
        case "bool_value":
            wanted = Outcome("bool", value.bool_value)
        case "string_value":
            wanted = Outcome("string", value.string_value)
        case "level":
            wanted = Outcome("level", value.level)
        case _:
            faults.refuse(path, "is empty: set bool_value, string_value or level")
            return None
    match question.type:
        case Predicate():
            possible, what = wanted.kind == "bool", "is a predicate: true or false"
        case Choice(options=options):
            values = {(isinstance(o.value, bool), o.value) for o in options}
            possible = wanted.kind != "level" and (wanted.kind == "bool", wanted.value) in values
            what = "is a choice: one of its options' values"
        case Score(levels=levels):
            possible = wanted.kind == "level" and int(wanted.value) < len(levels)
            what = f"is a score: a level from 0 to {len(levels) - 1}"
    if not possible:
        faults.refuse(path, f"is no answer of question {_called(question)!r}, which {what}")
        return None
    return wanted


def _called(question: Question) -> str:
    """What its caller calls a question: in a dialect with names its key is nothing but its place."""
    return question.name or question.key
