"""From answers to the contract's messages."""

from __future__ import annotations

from dicast.v1 import decision_pb2 as pb
from dicast_server.decisions.answers import (
    Answer,
    ChoiceAnswer,
    Diagnostics,
    PredicateAnswer,
    RefusalReason,
    Refused,
    ScoreAnswer,
    TemperatureSource,
)
from dicast_server.decisions.questions import Choice, Score
from dicast_server.engine.reader import Tally

_REASONS = {
    RefusalReason.ABSTAINED: pb.RefusedAnswer.REASON_ABSTAINED,
    RefusalReason.NOT_FINITE: pb.RefusedAnswer.REASON_NOT_FINITE,
}
_SOURCES = {
    TemperatureSource.REQUEST: pb.TEMPERATURE_SOURCE_REQUEST,
    TemperatureSource.SERVER: pb.TEMPERATURE_SOURCE_SERVER,
    TemperatureSource.FITTED: pb.TEMPERATURE_SOURCE_FITTED,
    TemperatureSource.PROFILE: pb.TEMPERATURE_SOURCE_PROFILE,
    TemperatureSource.DEFAULT: pb.TEMPERATURE_SOURCE_DEFAULT,
}


def answer_message(answer: Answer, detail: pb.DetailLevel.ValueType, head_path: str) -> pb.Answer:
    """An answer as it is sent; diagnostics where `detail` asks for them."""
    question, kind = answer.question, answer.kind
    message = pb.Answer(index=question.index, key=question.key, name=question.name)
    if isinstance(kind, PredicateAnswer):
        message.predicate.probability = kind.probability
    elif isinstance(kind, ChoiceAnswer):
        assert isinstance(question.type, Choice)
        message.choice.value.CopyFrom(_value(kind.value))
        message.choice.confidence = kind.confidence
        for option, probability in zip(question.type.options, kind.probabilities, strict=True):
            message.choice.probabilities.add(value=_value(option.value), probability=probability)
    elif isinstance(kind, ScoreAnswer):
        assert isinstance(question.type, Score)
        message.score.score = kind.score
        message.score.confidence = kind.confidence
        for index, level in enumerate(question.type.levels):
            message.score.probabilities.add(
                level=index, label=level.label, probability=kind.probabilities[index]
            )
    else:
        assert isinstance(kind, Refused)
        message.refused.reason = _REASONS[kind.reason]
        message.refused.message = kind.message
    if detail in {pb.DETAIL_LEVEL_BASIC, pb.DETAIL_LEVEL_FULL}:
        full = detail == pb.DETAIL_LEVEL_FULL
        message.diagnostics.CopyFrom(_diagnostics(answer.diagnostics, full, head_path))
    return message


def usage_message(tally: Tally) -> pb.Usage:
    """The tokens of a request."""
    return pb.Usage(
        input_tokens=tally.input_tokens,
        cached_tokens=tally.cached_tokens,
        computed_tokens=tally.input_tokens - tally.cached_tokens,
        output_tokens=0,
    )


def _value(value: str | bool) -> pb.OptionValue:
    if isinstance(value, bool):
        return pb.OptionValue(bool_value=value)
    return pb.OptionValue(string_value=value)


def _diagnostics(diagnostics: Diagnostics, full: bool, head_path: str) -> pb.Diagnostics:
    message = pb.Diagnostics(
        readout=diagnostics.readout,
        profile=diagnostics.profile,
        prompt_version=diagnostics.prompt_version,
        option_mass=diagnostics.option_mass,
        temperature=diagnostics.temperature.value,
        temperature_source=_SOURCES[diagnostics.temperature.source],
        forwards=diagnostics.forwards,
        passes=len(diagnostics.passes),
        orders=diagnostics.orders,
        order_spread=diagnostics.order_spread,
        head_path=head_path,
        prompt_hash=diagnostics.prompt_hash,
    )
    if full:
        for pass_ in diagnostics.passes:
            message.scores.add(options=pass_.options, scores=pass_.scores)
    return message
