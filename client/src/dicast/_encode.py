"""Dataclasses to protobuf: pure, and the one place that knows how a Python value is written.

What has no form in the contract raises TypeError or ValueError with its path, such as
`questions.route.options[0]`; how much a server accepts is its own business and is not checked here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.duration_pb2 import Duration

from dicast import _encode_options
from dicast import _questions as q
from dicast._checks import assign, json_text, sequence, text, texts, unfit
from dicast._options import Options
from dicast.jsontext import Path, show_path
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb


def decide_request(
    given_state: q.State,
    given_questions: q.Questions,
    *,
    model: str = "",
    options: Options | None = None,
    end_user: str = "",
    ask: Sequence[str] = (),
) -> service_pb.DecideRequest:
    """A request for Decide."""
    request = service_pb.DecideRequest(
        model=text(model, ("model",)),
        state=state(given_state),
        questions=questions(given_questions),
        end_user=text(end_user, ("end_user",)),
        ask=texts(ask, ("ask",)),
    )
    if options is not None:
        if not isinstance(options, Options):
            raise unfit(options, "Options", ("options",))
        request.options.CopyFrom(_encode_options.options(options))
        request.extensions.extend(_encode_options.extensions(options.extensions, ("options", "extensions")))
    return request


def stream_request(request: q.Request) -> service_pb.StreamDecideRequest:
    """A request for StreamDecide."""
    if not isinstance(request, q.Request):
        raise unfit(request, "Request", ("requests",))
    return service_pb.StreamDecideRequest(
        id=text(request.id, ("id",)),
        request=decide_request(
            request.state,
            request.questions,
            model=request.model,
            options=request.options,
            end_user=request.end_user,
            ask=request.ask,
        ),
    )


def prewarm_request(
    given_state: q.State, *, model: str, time_to_live_s: float | None, cache_salt: str
) -> service_pb.PrewarmRequest:
    """A request for Prewarm."""
    request = service_pb.PrewarmRequest(
        model=text(model, ("model",)),
        state=state(given_state),
        cache_salt=text(cache_salt, ("cache_salt",)),
    )
    if time_to_live_s is not None:
        request.time_to_live.CopyFrom(_duration(time_to_live_s, ("time_to_live_s",)))
    return request


def state(given: q.State) -> pb.State:
    """What is asked about."""
    path: Path = ("state",)
    if isinstance(given, pb.State):
        return given
    if given is None:
        raise TypeError("state: None is no state; an empty one is an empty string")
    if isinstance(given, str):
        return pb.State(text=text(given, path))
    return pb.State(json=json_text(given, path))


def questions(given: q.Questions) -> list[pb.Question]:
    """Questions with their keys; those of a sequence are "0", "1" and so on."""
    path: Path = ("questions",)
    if isinstance(given, Mapping):
        return [_question(text(key, path), each, (*path, key)) for key, each in given.items()]
    listed = enumerate(sequence(given, path))
    return [_question(str(index), each, (*path, index)) for index, each in listed]


def _question(key: str, given: q.Question, path: Path) -> pb.Question:
    if isinstance(given, pb.Question):
        question = pb.Question()
        question.CopyFrom(given)
        question.key = key
        return question
    question = pb.Question(key=key)
    match given:
        case q.Predicate():
            question.predicate.SetInParent()
            if given.when_true is not None:
                question.predicate.when_true.CopyFrom(_content(given.when_true, (*path, "when_true")))
            if given.when_false is not None:
                question.predicate.when_false.CopyFrom(_content(given.when_false, (*path, "when_false")))
        case q.Choice():
            question.choice.SetInParent()
            question.choice.options.extend(_choice_options(given.options, (*path, "options")))
        case q.Score():
            question.score.SetInParent()
            levels = sequence(given.levels, (*path, "levels"))
            question.score.levels.extend(
                _level(level, (*path, "levels", index)) for index, level in enumerate(levels)
            )
        case _:
            raise unfit(given, "Predicate, Choice or Score", path)
    if given.name is not None:
        question.name = text(given.name, (*path, "name"))
    if given.instructions is not None:
        question.instructions.CopyFrom(_content(given.instructions, (*path, "instructions")))
    if given.readout is not None:
        question.readout.CopyFrom(_encode_options.readout(given.readout, (*path, "readout")))
    question.ask_if.extend(_conditions(given.ask_if, (*path, "ask_if")))
    question.extensions.extend(_encode_options.extensions(given.extensions, (*path, "extensions")))
    return question


def _choice_options(given: Any, path: Path) -> list[pb.Option]:
    if isinstance(given, Mapping):
        # In a mapping None was written down, so it is JSON null; an Option without one says nothing.
        null = q.Json("null")
        given = [q.Option(value, null if wording is None else wording) for value, wording in given.items()]
    options = []
    for index, each in enumerate(sequence(given, path)):
        here = (*path, index)
        option = each if isinstance(each, q.Option) else q.Option(each)
        message = pb.Option()
        if isinstance(option.value, bool):
            message.value.bool_value = option.value
        elif isinstance(option.value, str):
            message.value.string_value = text(option.value, here)
        else:
            raise unfit(option.value, "str, bool or Option", here)
        if option.description is not None:
            message.description.CopyFrom(_content(option.description, (*here, "description")))
        options.append(message)
    return options


def _level(given: Any, path: Path) -> pb.Level:
    if isinstance(given, str):
        given = q.Level(given)
    elif not isinstance(given, q.Level):
        given = q.Level(description=q.Json("null") if given is None else given)
    level = pb.Level()
    if given.label is not None:
        level.label = text(given.label, (*path, "label"))
    if given.description is not None:
        level.description.CopyFrom(_content(given.description, (*path, "description")))
    return level


def _conditions(given: Any, path: Path) -> list[pb.Condition]:
    if not isinstance(given, Mapping):
        raise unfit(given, "a mapping of keys to answers", path)
    conditions = []
    for key, wanted in given.items():
        condition = pb.Condition(key=text(key, path))
        values = [wanted] if isinstance(wanted, (bool, str, int)) else sequence(wanted, (*path, key))
        for index, value in enumerate(values):
            answer = condition.any_of.add()
            if isinstance(value, bool):
                answer.bool_value = value
            elif isinstance(value, str):
                answer.string_value = text(value, (*path, key, index))
            elif isinstance(value, int):
                assign(answer, "level", value, (*path, key, index))
            else:
                raise unfit(value, "bool, str or int", (*path, key, index))
        conditions.append(condition)
    return conditions


def _content(given: Any, path: Path) -> pb.Content:
    if isinstance(given, str):
        return pb.Content(text=text(given, path))
    return pb.Content(json=json_text(given, path))


def _duration(seconds: float, path: Path) -> Duration:
    if not 0 < seconds < 1e9:
        raise ValueError(f"{show_path(path)}: {seconds} is no number of seconds")
    duration = Duration()
    duration.FromNanoseconds(round(seconds * 1e9))
    return duration
