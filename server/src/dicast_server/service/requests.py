"""From a DecideRequest to what is to be decided, with everything that is wrong with it found at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast_server.decisions.answers import Abstain
from dicast_server.decisions.questions import (
    Choice,
    Level,
    Option,
    Predicate,
    Question,
    QuestionType,
    Score,
)
from dicast_server.readouts.profile import OptionStyle
from dicast_server.service.contents import Faults, StateContent, read_content, read_state
from dicast_server.service.limits import Limits

_STYLES = {
    pb.LettersReadout.STYLE_UNSPECIFIED: None,
    pb.LettersReadout.STYLE_PLAIN: OptionStyle.PLAIN,
    pb.LettersReadout.STYLE_BRACKET: OptionStyle.BRACKET,
}


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question and the option style that was asked for; None is the profile's."""

    question: Question
    style: OptionStyle | None


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """A request that keeps the contract and the limits. A temperature of None was not said."""

    state: StateContent
    questions: tuple[AskedQuestion, ...]
    temperature: float | None
    abstain: Abstain
    isolated: bool
    detail: pb.DetailLevel.ValueType
    cache_salt: str = ""


def read_request(request: service_pb.DecideRequest, limits: Limits) -> DecisionRequest:
    """Read a request.

    Raises:
        Failure: INVALID_ARGUMENT with a violation for every field at fault.
    """
    faults = Faults()
    state = read_state(request.state, faults)
    style = _read_readout(request.options.readout, "options.readout", faults)
    options = _read_options(request.options, limits, faults)
    for index, extension in enumerate(request.extensions):
        faults.refuse(f"extensions[{index}]", f"no plugin of this server reads {extension.name!r}")
    questions = _read_questions(request, style, limits, faults)
    faults.check()
    assert state is not None  # or a fault was noted
    return DecisionRequest(state, questions, *options, request.options.cache_salt)


def read_prewarm(request: service_pb.PrewarmRequest, limits: Limits) -> tuple[StateContent, float]:
    """The state to keep, and for how many seconds to hold it.

    Raises:
        Failure: INVALID_ARGUMENT with a violation for every field at fault.
    """
    faults = Faults()
    state = read_state(request.state, faults)
    hold_s = 0.0
    if request.HasField("time_to_live"):
        hold_s = request.time_to_live.ToTimedelta().total_seconds()
        if not 0 < hold_s <= limits.max_hold_s:
            faults.refuse("time_to_live", f"is {hold_s} s; must be above 0 and at most {limits.max_hold_s} s")
    faults.check()
    assert state is not None  # or a fault was noted
    return state, hold_s


def _read_options(
    options: pb.DecideOptions, limits: Limits, faults: Faults
) -> tuple[float | None, Abstain, bool, pb.DetailLevel.ValueType]:
    if options.HasField("orders"):
        if options.orders == 0:
            faults.refuse("options.orders", f"must be 1 to {limits.orders}")
        elif options.orders > limits.orders:
            faults.limit("options.orders", f"is {options.orders}; at most {limits.orders} are read")
        elif options.orders > 1:
            faults.unsupported("options.orders", "more than one order is not served by this version; send 1")
    temperature = options.temperature if options.HasField("temperature") else None
    lowest, highest = limits.min_temperature, limits.max_temperature
    if temperature is not None and not lowest <= temperature <= highest:
        faults.refuse("options.temperature", f"is {temperature}; must be a number from {lowest} to {highest}")
    if options.detail not in pb.DetailLevel.values():
        faults.refuse("options.detail", f"{options.detail} is no detail level")
    abstain = Abstain(options.abstain.min_confidence, options.abstain.min_option_mass)
    for name, value in (
        ("min_confidence", abstain.min_confidence),
        ("min_option_mass", abstain.min_option_mass),
    ):
        if not (math.isfinite(value) and 0 <= value <= 1):
            faults.refuse(f"options.abstain.{name}", f"is {value}; must be a number from 0 to 1")
    return temperature, abstain, options.isolated, options.detail


def _read_readout(readout: pb.Readout, path: str, faults: Faults) -> OptionStyle | None:
    kind = readout.WhichOneof("readout")
    if kind == "letters":
        if readout.letters.style not in _STYLES:
            faults.refuse(f"{path}.letters.style", f"{readout.letters.style} is no style")
            return None
        return _STYLES[readout.letters.style]
    if kind is not None:
        faults.unsupported(path, f"the {kind} readout is not served by this version; use letters")
    return None


def _read_questions(
    request: service_pb.DecideRequest, style: OptionStyle | None, limits: Limits, faults: Faults
) -> tuple[AskedQuestion, ...]:
    if not request.questions:
        faults.refuse("questions", "is empty: ask at least one question")
    if len(request.questions) > limits.questions:
        faults.limit(
            "questions", f"has {len(request.questions)} questions; at most {limits.questions} are answered"
        )
        return ()
    keys: dict[str, int] = {}
    asked: list[AskedQuestion] = []
    for index, question in enumerate(request.questions):
        path = f"questions[{index}]"
        if not question.key:
            faults.refuse(f"{path}.key", "is empty: give each question a key of its own")
        elif (earlier := keys.setdefault(question.key, index)) != index:
            faults.refuse(f"{path}.key", f"repeats the key of questions[{earlier}]")
        if question.HasField("readout"):
            own_style = _read_readout(question.readout, f"{path}.readout", faults)
        else:
            own_style = style
        asked.append(AskedQuestion(_read_question(question, index, limits, faults), own_style))
    return tuple(asked)


def _read_question(question: pb.Question, index: int, limits: Limits, faults: Faults) -> Question:
    path = f"questions[{index}]"
    if question.ask_if:
        faults.unsupported(
            f"{path}.ask_if", "conditions are not served by this version; ask the question always"
        )
    for place, extension in enumerate(question.extensions):
        faults.refuse(f"{path}.extensions[{place}]", f"no plugin of this server reads {extension.name!r}")
    instructions = None
    already = len(faults.invalid)
    if question.HasField("instructions"):
        instructions = read_content(question.instructions, f"{path}.instructions", faults)
    kind = question.WhichOneof("type")
    type_: QuestionType = Predicate()
    if kind == "predicate":
        type_ = _read_predicate(question.predicate, path, faults)
        if instructions is None and type_ == Predicate() and len(faults.invalid) == already:
            faults.refuse(
                f"{path}.instructions", "is missing: a predicate needs instructions or a criterion, or both"
            )
    elif kind == "choice":
        type_ = _read_choice(question.choice, f"{path}.choice", limits, faults)
    elif kind == "score":
        type_ = _read_score(question.score, f"{path}.score", limits, faults)
    elif kind == "extension":
        faults.refuse(
            f"{path}.extension",
            f"no plugin of this server answers questions of type {question.extension.type!r}",
        )
    else:
        faults.refuse(path, "has no type: set predicate, choice or score")
    name = question.name if question.HasField("name") else None
    return Question(index, question.key, name, instructions, type_)


def _read_predicate(predicate: pb.Predicate, path: str, faults: Faults) -> Predicate:
    when_true = when_false = None
    if predicate.HasField("when_true"):
        when_true = read_content(predicate.when_true, f"{path}.predicate.when_true", faults)
    if predicate.HasField("when_false"):
        when_false = read_content(predicate.when_false, f"{path}.predicate.when_false", faults)
    return Predicate(when_true, when_false)


def _read_choice(choice: pb.Choice, path: str, limits: Limits, faults: Faults) -> Choice:
    count = len(choice.options)
    if count < 2:
        faults.limit(f"{path}.options", f"has {_counted(count, 'option')}; a choice needs 2 at least")
    elif count > limits.options:
        faults.limit(f"{path}.options", f"has {count} options; at most {limits.options} are read")
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
    count = len(score.levels)
    if count < 2:
        faults.limit(f"{path}.levels", f"has {_counted(count, 'level')}; a score needs 2 at least")
    elif count > limits.levels:
        faults.limit(f"{path}.levels", f"has {count} levels; at most {limits.levels} are read")
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


def _counted(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"
