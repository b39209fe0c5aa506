"""Protobuf to dataclasses: pure, the other half of `_encode`."""

from __future__ import annotations

from typing import Any, cast

import grpc
from google.protobuf.duration_pb2 import Duration

from dicast import _answers as a
from dicast import _errors
from dicast._decode_models import enum_name
from dicast._diagnostics import Diagnostics, PassScores
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb


def decision(response: service_pb.DecideResponse) -> a.Decision:
    """The reply of Decide."""
    return a.Decision(
        answers=tuple(answer(each) for each in response.answers),
        model=response.summary.model,
        usage=_usage(response.summary.usage),
        request_id=response.summary.request_id,
        elapsed_s=_seconds(response.summary.elapsed),
    )


def event(response: service_pb.StreamDecideResponse) -> a.Event:
    """One reply of StreamDecide."""
    match response.WhichOneof("event"):
        case "answer":
            return a.Answered(response.id, answer(response.answer))
        case "summary":
            return a.Completed(response.id, summary(response.summary))
        case "error":
            return a.Failed(response.id, _errors.from_message(response.error))
        case _:
            raise _unknown("an event")


def answer(message: pb.Answer) -> a.Answer:
    """The answer to one question."""
    common: dict[str, Any] = {
        "key": message.key,
        "index": message.index,
        "name": message.name if message.HasField("name") else None,
        "diagnostics": _diagnostics(message.diagnostics) if message.HasField("diagnostics") else None,
    }
    if (probable := _probable(message, message.WhichOneof("kind"), common)) is not None:
        return probable
    match message.WhichOneof("kind"):
        case "skipped":
            skipped = message.skipped
            was = _answer_value(skipped.was) if skipped.HasField("was") else None
            return a.Skipped(because=skipped.because, was=was, **common)
        case "refused":
            reason = enum_name(pb.RefusedAnswer.Reason, message.refused.reason, "REASON_")
            would_be = _probable(message.refused, message.refused.WhichOneof("would_be"), common)
            return a.Refused(
                reason=cast(Any, reason), message=message.refused.message, would_be=would_be, **common
            )
        case "extension":
            return a.ExtensionAnswer(type=message.extension.name, json=message.extension.json, **common)
        case _:
            raise _unknown("an answer")


def _probable(
    message: pb.Answer | pb.RefusedAnswer, kind: str | None, common: dict[str, Any]
) -> a.PredicateAnswer | a.ChoiceAnswer | a.ScoreAnswer | None:
    """An answer with probabilities, which both messages hold in fields of the same names; None for others."""
    match kind:
        case "predicate":
            return a.PredicateAnswer(probability=message.predicate.probability, **common)
        case "choice":
            choice = message.choice
            return a.ChoiceAnswer(
                value=_option_value(choice.value),
                confidence=choice.confidence,
                probabilities={_option_value(p.value): p.probability for p in choice.probabilities},
                **common,
            )
        case "score":
            score = message.score
            return a.ScoreAnswer(
                score=score.score,
                confidence=score.confidence,
                probabilities=tuple(p.probability for p in score.probabilities),
                labels=tuple(p.label if p.HasField("label") else None for p in score.probabilities),
                **common,
            )
        case _:
            return None


def summary(message: pb.DecideSummary) -> a.Summary:
    """What belongs to a request as a whole."""
    return a.Summary(
        model=message.model,
        usage=_usage(message.usage),
        request_id=message.request_id,
        elapsed_s=_seconds(message.elapsed),
    )


def prewarmed(response: service_pb.PrewarmResponse) -> a.Prewarmed:
    """The reply of Prewarm."""
    return a.Prewarmed(
        model=response.model,
        prefix_tokens=response.prefix_tokens,
        cached_tokens=response.cached_tokens,
        kept=response.kept,
        reason=response.reason,
        request_id=response.request_id,
    )


def _diagnostics(message: pb.Diagnostics) -> Diagnostics:
    return Diagnostics(
        readout=message.readout,
        profile=message.profile,
        prompt_version=message.prompt_version,
        option_mass=message.option_mass,
        temperature=message.temperature,
        temperature_source=enum_name(pb.TemperatureSource, message.temperature_source, "TEMPERATURE_SOURCE_"),
        forwards=message.forwards,
        passes=message.passes,
        orders=message.orders,
        order_spread=message.order_spread,
        truncated_tokens=message.truncated_tokens,
        head_path=message.head_path,
        prompt_hash=message.prompt_hash,
        scores=tuple(
            PassScores(
                options=tuple(each.options),
                scores=tuple(each.scores),
                candidate_token_ids=tuple(tuple(tokens.ids) for tokens in each.candidate_token_ids),
                prior=each.prior,
            )
            for each in message.scores
        ),
        score_kind=message.score_kind,
        prior_corrected=message.prior_corrected,
        length_normalized=message.length_normalized,
        entropy=message.entropy,
        margin=message.margin,
        concentration=message.concentration,
        confidence_formula=message.confidence_formula,
        state_hash=message.state_hash,
        tokens=message.tokens,
        offset=message.offset,
    )


def _usage(message: pb.Usage) -> a.Usage:
    return a.Usage(
        input_tokens=message.input_tokens,
        cached_tokens=message.cached_tokens,
        computed_tokens=message.computed_tokens,
        output_tokens=message.output_tokens,
    )


def _option_value(message: pb.OptionValue) -> str | bool:
    if message.WhichOneof("value") == "bool_value":
        return message.bool_value
    return message.string_value


def _answer_value(message: pb.AnswerValue) -> bool | str | int | None:
    match message.WhichOneof("value"):
        case "bool_value":
            return message.bool_value
        case "string_value":
            return message.string_value
        case "level":
            return message.level
        case _:
            return None


def _seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos / 1e9


def _unknown(what: str) -> _errors.Internal:
    return _errors.Internal(
        f"the server sent {what} of a kind that this client does not know: upgrade dicast",
        code=grpc.StatusCode.UNKNOWN,
    )
