"""Labelled questions in the bodies of the two JSON dialects, and probabilities out of their replies."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from dicast import jsontext
from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.decisions.questions import Choice, Content, Json, Option, Predicate, Question, Score
from dicast_server.decisions.wording import Wording
from dicast_server.evaluation.questions import as_text
from dicast_server.evaluation.source import Said, Unsaid

_OFF = 0.02
"""Servers round what they send; probabilities whose sum is further from 1 than this are none."""


class Dialect(Protocol):
    """How questions about one state are sent, and what comes back is read."""

    def body(self, model: str, questions: Sequence[LabelledQuestion]) -> jsontext.Object:
        """The body of a request."""
        ...

    def answers(self, questions: Sequence[LabelledQuestion], reply: Any) -> list[Said | Unsaid]:
        """What a reply says, in the order of the questions. Raises ValueError where it is of no such form."""
        ...


class SystemOne:
    """/v1/systemone: the form that files of labelled questions have too."""

    def body(self, model: str, questions: Sequence[LabelledQuestion]) -> jsontext.Object:
        """The body of a request."""
        asked = [(f"q{place}", _systemone(each.question)) for place, each in enumerate(questions)]
        return jsontext.Object(
            [
                ("model", model),
                ("state", _value(questions[0].state)),
                ("questions", jsontext.Object(asked)),
            ]
        )

    def answers(self, questions: Sequence[LabelledQuestion], reply: Any) -> list[Said | Unsaid]:
        """What a reply says."""
        answers = _member(reply, "answers", dict)
        return [_of_systemone(each, answers.get(f"q{place}")) for place, each in enumerate(questions)]


class Decisions:
    """/v1/decisions, which has no criteria of a predicate: the instructions say them."""

    def body(self, model: str, questions: Sequence[LabelledQuestion]) -> jsontext.Object:
        """The body of a request."""
        asked: list[jsontext.Value] = [
            _decisions(f"q{place}", q.question) for place, q in enumerate(questions)
        ]
        return jsontext.Object(
            [("model", model), ("input", _input(questions[0].state)), ("questions", asked)]
        )

    def answers(self, questions: Sequence[LabelledQuestion], reply: Any) -> list[Said | Unsaid]:
        """What a reply says."""
        answers = _member(reply, "answers", list)
        if len(answers) != len(questions):
            raise ValueError(f"it has {len(answers)} answers to {len(questions)} questions")
        return [_of_decisions(each, answer) for each, answer in zip(questions, answers, strict=True)]


def dialect_of(url: str) -> Dialect | None:
    """The dialect of a URL by its end; None for any other."""
    path = url.partition("?")[0].rstrip("/")
    if path.endswith("/v1/systemone"):
        return SystemOne()
    return Decisions() if path.endswith("/v1/decisions") else None


def _systemone(question: Question) -> jsontext.Object:
    fields: list[tuple[str, jsontext.Value]]
    match question.type:
        case Predicate(when_true=when_true, when_false=when_false):
            told = [
                (name, _value(each)) for name, each in (("true", when_true), ("false", when_false)) if each
            ]
            fields = [("type", "noul")]
            criteria: jsontext.Value = jsontext.Object(told) if told else None
        case Choice(options=options):
            fields = [("type", "choice")]
            criteria = jsontext.Object((str(each.value), _value(each.description)) for each in options)
        case Score(levels=levels):
            fields = [("type", "score")]
            criteria = [_value(each.description) for each in levels]
    if question.instructions is not None:
        fields.append(("instructions", _value(question.instructions)))
    if criteria is not None:
        fields.append(("criteria", criteria))
    return jsontext.Object(fields)


def _of_systemone(question: LabelledQuestion, answer: Any) -> Said | Unsaid:
    if not isinstance(answer, dict):
        return Unsaid("the reply has no answer to it")
    match question.question.type:
        case Predicate():
            return _said([answer.get("noul")], question)
        case Choice(options=options):
            return _said(_by_name(answer, [each.value for each in options]), question)
        case Score(levels=levels):
            return _said(_by_name(answer, [str(place) for place in range(len(levels))]), question)


def _decisions(name: str, question: Question) -> jsontext.Object:
    fields: list[tuple[str, jsontext.Value]]
    instructions = "" if question.instructions is None else as_text(question.instructions)
    match question.type:
        case Predicate(when_true=when_true, when_false=when_false):
            criteria = [
                f"{outcome}: {as_text(each)}"
                for outcome, each in (("Yes", when_true), ("No", when_false))
                if each is not None
            ]
            instructions = "\n".join([instructions or "Is the statement true?", *criteria])
            fields = [("type", "predicate")]
        case Choice(options=options):
            choices: list[jsontext.Value] = [_choice(each) for each in options]
            fields = [("type", "choice"), ("choices", choices)]
            instructions = instructions or "Which option fits best?"
        case Score(levels=levels):
            texts: list[jsontext.Value] = [
                jsontext.Object([("label", Wording.JSON.level(each))]) for each in levels
            ]
            fields = [("type", "score"), ("levels", texts)]
            instructions = instructions or "Which level fits best?"
    return jsontext.Object([*fields, ("name", name), ("instructions", instructions)])


def _choice(option: Option) -> jsontext.Object:
    fields: list[tuple[str, jsontext.Value]] = [("value", option.value)]
    if option.description is not None:
        fields.append(("description", as_text(option.description)))
    return jsontext.Object(fields)


def _of_decisions(question: LabelledQuestion, answer: Any) -> Said | Unsaid:
    if not isinstance(answer, dict):
        return Unsaid("its answer is no object")
    if answer.get("type") == "refusal":
        return Unsaid("refused")
    if question.kind == "predicate":
        return _said([answer.get("probability")], question)
    listed = answer.get("probabilities")
    entries = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    if isinstance(question.question.type, Choice):
        wanted: Iterable[Any] = [each.value for each in question.question.type.options]
    else:
        wanted = range(question.options)
    by_value = {each.get("value"): each.get("probability") for each in entries}
    return _said([by_value.get(value) for value in wanted], question)


def _input(state: Content) -> jsontext.Value:
    if isinstance(state, str):
        return state
    value = state.value
    if isinstance(value, list) and not all(isinstance(each, jsontext.Object) for each in value):
        # Such an array has no form of its own in this dialect.
        return as_text(state)
    part = jsontext.Object([("type", "input_json"), ("data", value)])
    return [jsontext.Object([("role", "user"), ("content", [part])])]


def _value(content: Content | None) -> jsontext.Value:
    return content.value if isinstance(content, Json) else content


def _by_name(answer: dict[str, Any], names: Sequence[Any]) -> list[Any]:
    found = answer.get("probabilities")
    return [found.get(name) for name in names] if isinstance(found, dict) else [None]


def _said(values: Sequence[Any], question: LabelledQuestion) -> Said | Unsaid:
    """Probabilities of all options; of a predicate that of true alone."""
    if any(not isinstance(p, int | float) or isinstance(p, bool) or not 0.0 <= p <= 1.0 for p in values):
        return Unsaid("its answer lacks a probability of an option")
    given = tuple(map(float, values))
    if question.kind == "predicate":
        return Said((given[0], 1.0 - given[0]))
    total = math.fsum(given)
    if abs(total - 1.0) > _OFF:
        return Unsaid(f"its probabilities sum to {total:.4g}")
    return Said(tuple(p / total for p in given))


def _member(reply: Any, name: str, kind: type) -> Any:
    found = reply.get(name) if isinstance(reply, dict) else None
    if not isinstance(found, kind):
        raise ValueError(f"it has no {name}")
    return found
