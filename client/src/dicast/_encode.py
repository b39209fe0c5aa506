"""Dataclasses to protobuf: pure, and the one place that knows how a Python value is written.

What has no form in the contract raises TypeError or ValueError with its path, such as
`questions.route.options[0]`; how much a server accepts is its own business and is not checked here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from dicast import _questions as q
from dicast._options import Abstain, Candidates, Direct, Letters, Options, Readout
from dicast.jsontext import JsonError, Path, encode, is_text, show_path
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb

_DETAILS = {
    None: pb.DETAIL_LEVEL_UNSPECIFIED,
    "none": pb.DETAIL_LEVEL_NONE,
    "basic": pb.DETAIL_LEVEL_BASIC,
    "full": pb.DETAIL_LEVEL_FULL,
}
_STYLES = {
    None: pb.LettersReadout.STYLE_UNSPECIFIED,
    "plain": pb.LettersReadout.STYLE_PLAIN,
    "bracket": pb.LettersReadout.STYLE_BRACKET,
}
_SCORINGS = {
    None: pb.CandidatesReadout.SCORING_UNSPECIFIED,
    "single_token": pb.CandidatesReadout.SCORING_SINGLE_TOKEN,
    "sequence": pb.CandidatesReadout.SCORING_SEQUENCE,
}


def decide_request(
    given_state: q.State,
    given_questions: q.Questions,
    *,
    model: str = "",
    options: Options | None = None,
    end_user: str = "",
) -> service_pb.DecideRequest:
    """A request for Decide."""
    request = service_pb.DecideRequest(
        model=_text(model, ("model",)),
        state=state(given_state),
        questions=questions(given_questions),
        end_user=_text(end_user, ("end_user",)),
    )
    if options is not None:
        if not isinstance(options, Options):
            raise _unfit(options, "Options", ("options",))
        request.options.CopyFrom(_options(options))
        request.extensions.extend(_extensions(options.extensions, ("options", "extensions")))
    return request


def stream_request(request: q.Request) -> service_pb.StreamDecideRequest:
    """A request for StreamDecide."""
    if not isinstance(request, q.Request):
        raise _unfit(request, "Request", ("requests",))
    return service_pb.StreamDecideRequest(
        id=_text(request.id, ("id",)),
        request=decide_request(
            request.state,
            request.questions,
            model=request.model,
            options=request.options,
            end_user=request.end_user,
        ),
    )


def prewarm_request(
    given_state: q.State, *, model: str, time_to_live_s: float | None, cache_salt: str
) -> service_pb.PrewarmRequest:
    """A request for Prewarm."""
    request = service_pb.PrewarmRequest(
        model=_text(model, ("model",)),
        state=state(given_state),
        cache_salt=_text(cache_salt, ("cache_salt",)),
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
        return pb.State(text=_text(given, path))
    return pb.State(json=_json(given, path))


def questions(given: q.Questions) -> list[pb.Question]:
    """Questions with their keys; those of a sequence are "0", "1" and so on."""
    path: Path = ("questions",)
    if isinstance(given, Mapping):
        return [_question(_text(key, path), each, (*path, key)) for key, each in given.items()]
    listed = enumerate(_sequence(given, path))
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
            levels = _sequence(given.levels, (*path, "levels"))
            question.score.levels.extend(
                _level(level, (*path, "levels", index)) for index, level in enumerate(levels)
            )
        case _:
            raise _unfit(given, "Predicate, Choice or Score", path)
    if given.name is not None:
        question.name = _text(given.name, (*path, "name"))
    if given.instructions is not None:
        question.instructions.CopyFrom(_content(given.instructions, (*path, "instructions")))
    if given.readout is not None:
        question.readout.CopyFrom(_readout(given.readout, (*path, "readout")))
    question.ask_if.extend(_conditions(given.ask_if, (*path, "ask_if")))
    question.extensions.extend(_extensions(given.extensions, (*path, "extensions")))
    return question


def _choice_options(given: Any, path: Path) -> list[pb.Option]:
    if isinstance(given, Mapping):
        # In a mapping None was written down, so it is JSON null; an Option without one says nothing.
        null = q.Json("null")
        given = [q.Option(value, null if wording is None else wording) for value, wording in given.items()]
    options = []
    for index, each in enumerate(_sequence(given, path)):
        here = (*path, index)
        option = each if isinstance(each, q.Option) else q.Option(each)
        message = pb.Option()
        if isinstance(option.value, bool):
            message.value.bool_value = option.value
        elif isinstance(option.value, str):
            message.value.string_value = _text(option.value, here)
        else:
            raise _unfit(option.value, "str, bool or Option", here)
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
        level.label = _text(given.label, (*path, "label"))
    if given.description is not None:
        level.description.CopyFrom(_content(given.description, (*path, "description")))
    return level


def _conditions(given: Any, path: Path) -> list[pb.Condition]:
    if not isinstance(given, Mapping):
        raise _unfit(given, "a mapping of keys to answers", path)
    conditions = []
    for key, wanted in given.items():
        condition = pb.Condition(key=_text(key, path))
        values = [wanted] if isinstance(wanted, (bool, str, int)) else _sequence(wanted, (*path, key))
        for index, value in enumerate(values):
            answer = condition.any_of.add()
            if isinstance(value, bool):
                answer.bool_value = value
            elif isinstance(value, str):
                answer.string_value = _text(value, (*path, key, index))
            elif isinstance(value, int):
                _assign(answer, "level", value, (*path, key, index))
            else:
                raise _unfit(value, "bool, str or int", (*path, key, index))
        conditions.append(condition)
    return conditions


def _options(given: Options) -> pb.DecideOptions:
    options = pb.DecideOptions(
        detail=_pick(_DETAILS, given.detail, ("options", "detail")),
        cache_salt=_text(given.cache_salt, ("options", "cache_salt")),
        isolated=given.isolated,
    )
    if given.readout is not None:
        options.readout.CopyFrom(_readout(given.readout, ("options", "readout")))
    for field in ("orders", "temperature", "seed"):
        if (value := getattr(given, field)) is not None:
            _assign(options, field, value, ("options", field))
    if given.abstain is not None:
        if not isinstance(given.abstain, Abstain):
            raise _unfit(given.abstain, "Abstain", ("options", "abstain"))
        options.abstain.SetInParent()
        for field in ("min_confidence", "min_option_mass"):
            _assign(options.abstain, field, getattr(given.abstain, field), ("options", "abstain", field))
    return options


def _readout(given: Readout, path: Path) -> pb.Readout:
    match given:
        case Letters():
            style = _pick(_STYLES, given.style, (*path, "style"))
            return pb.Readout(letters=pb.LettersReadout(style=style))
        case Direct():
            return pb.Readout(direct=pb.DirectReadout(hide_names=given.hide_names))
        case Candidates():
            return pb.Readout(
                candidates=pb.CandidatesReadout(
                    scoring=_pick(_SCORINGS, given.scoring, (*path, "scoring")),
                    normalize_length=given.normalize_length,
                    correct_prior=given.correct_prior,
                )
            )
        case _:
            raise _unfit(given, "Letters, Direct or Candidates", path)


def _extensions(given: Any, path: Path) -> list[pb.Extension]:
    if not isinstance(given, Mapping):
        raise _unfit(given, "a mapping of names to values", path)
    return [
        pb.Extension(name=_text(name, path), json=_json(value, (*path, name)))
        for name, value in given.items()
    ]


def _content(given: Any, path: Path) -> pb.Content:
    if isinstance(given, str):
        return pb.Content(text=_text(given, path))
    return pb.Content(json=_json(given, path))


def _json(given: Any, path: Path) -> str:
    if isinstance(given, q.Json):
        return given.text
    try:
        return encode(given)
    except JsonError as error:
        raise JsonError(error.problem, (*path, *error.path)) from None


def _text(given: Any, path: Path) -> str:
    if not isinstance(given, str):
        raise _unfit(given, "str", path)
    if not is_text(given):
        raise JsonError("holds a lone surrogate, which is no character", path)
    return given


def _sequence(given: Any, path: Path) -> Sequence[Any]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise _unfit(given, "a sequence", path)
    return given


def _pick(names: Mapping[Any, Any], given: Any, path: Path) -> Any:
    if isinstance(given, str | None) and given in names:
        return names[given]
    known = ", ".join(repr(name) for name in names)
    raise ValueError(f"{show_path(path)}: {given!r} is none of {known}")


def _assign(message: Message, field: str, value: object, path: Path) -> None:
    try:
        setattr(message, field, value)
    except (TypeError, ValueError) as error:  # protobuf names neither the field nor its path
        raise type(error)(f"{show_path(path)}: {error}") from None


def _duration(seconds: float, path: Path) -> Duration:
    if not 0 < seconds < 1e9:
        raise ValueError(f"{show_path(path)}: {seconds} is no number of seconds")
    duration = Duration()
    duration.FromNanoseconds(round(seconds * 1e9))
    return duration


def _unfit(given: object, wanted: str, path: Path) -> TypeError:
    return TypeError(f"{show_path(path)} takes {wanted}, not {type(given).__name__}")
