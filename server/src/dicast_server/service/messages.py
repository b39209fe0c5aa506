"""From answers to the contract's messages."""

from __future__ import annotations

from dicast import jsontext
from dicast.v1 import decision_pb2 as pb
from dicast_server.decisions.answers import (
    Answer,
    ChoiceAnswer,
    Diagnostics,
    ExtensionAnswer,
    PredicateAnswer,
    ProbableAnswer,
    RefusalReason,
    Refused,
    ScoreAnswer,
    Skipped,
    TemperatureSource,
)
from dicast_server.decisions.questions import Choice, Outcome, Question, Score
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
    match kind:
        case PredicateAnswer() | ChoiceAnswer() | ScoreAnswer():
            _add_probable(message, question, kind)
        case ExtensionAnswer():
            message.extension.name = kind.type
            message.extension.json = jsontext.encode(kind.value)
        case Skipped():
            message.skipped.because = kind.because
            if kind.was is not None:
                message.skipped.was.CopyFrom(_outcome(kind.was))
        case Refused():
            message.refused.reason = _REASONS[kind.reason]
            message.refused.message = kind.message
            if kind.would_be is not None:
                _add_probable(message.refused, question, kind.would_be)
    if answer.diagnostics is not None and detail in {pb.DETAIL_LEVEL_BASIC, pb.DETAIL_LEVEL_FULL}:
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


def _add_probable(message: pb.Answer | pb.RefusedAnswer, question: Question, kind: ProbableAnswer) -> None:
    """An answer with probabilities, under its own field: both messages have the three."""
    match kind:
        case PredicateAnswer():
            message.predicate.probability = kind.probability
        case ChoiceAnswer():
            assert isinstance(question.type, Choice)
            message.choice.value.CopyFrom(_value(kind.value))
            message.choice.confidence = kind.confidence
            for option, probability in zip(question.type.options, kind.probabilities, strict=True):
                message.choice.probabilities.add(value=_value(option.value), probability=probability)
        case ScoreAnswer():
            assert isinstance(question.type, Score)
            message.score.score = kind.score
            message.score.confidence = kind.confidence
            for index, level in enumerate(question.type.levels):
                message.score.probabilities.add(
                    level=index, label=level.label, probability=kind.probabilities[index]
                )


def _value(value: str | bool) -> pb.OptionValue:
    if isinstance(value, bool):
        return pb.OptionValue(bool_value=value)
    return pb.OptionValue(string_value=value)


def _outcome(outcome: Outcome) -> pb.AnswerValue:
    match outcome.kind:
        case "bool":
            return pb.AnswerValue(bool_value=bool(outcome.value))
        case "string":
            return pb.AnswerValue(string_value=str(outcome.value))
        case _:
            return pb.AnswerValue(level=int(outcome.value))


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
        score_kind=diagnostics.score_kind,
        prior_corrected=diagnostics.prior_corrected,
        length_normalized=diagnostics.length_normalized,
        confidence_formula=diagnostics.confidence_formula,
        state_hash=diagnostics.state_hash,
        tokens=diagnostics.tokens,
        offset=diagnostics.temperature.offset,
    )
    if (spread := diagnostics.spread) is not None:
        message.entropy = spread.entropy
        message.margin = spread.margin
        message.concentration = spread.concentration
    if full:
        for pass_ in diagnostics.passes:
            message.scores.add(
                options=pass_.options,
                scores=pass_.scores,
                candidate_token_ids=[pb.TokenIds(ids=ids) for ids in pass_.token_ids],
                prior=pass_.prior,
            )
    return message
