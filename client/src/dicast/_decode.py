"""Protobuf to dataclasses: pure, the other half of `_encode`."""

from __future__ import annotations

from datetime import timezone
from typing import Any, Literal, cast

import grpc
from google.protobuf.duration_pb2 import Duration

from dicast import _answers as a
from dicast import _errors, _models
from dicast._diagnostics import Diagnostics, PassScores
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import model_service_pb2 as model_pb

_UTC = timezone.utc  # noqa: UP017 - datetime.UTC is of Python 3.11


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
    match message.WhichOneof("kind"):
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
        case "skipped":
            skipped = message.skipped
            was = _answer_value(skipped.was) if skipped.HasField("was") else None
            return a.Skipped(because=skipped.because, was=was, **common)
        case "refused":
            reason = _name(pb.RefusedAnswer.Reason, message.refused.reason, "REASON_")
            return a.Refused(reason=cast(Any, reason), message=message.refused.message, **common)
        case "extension":
            return a.ExtensionAnswer(type=message.extension.name, json=message.extension.json, **common)
        case _:
            raise _unknown("an answer")


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


def model(message: model_pb.Model) -> _models.Model:
    """A served model."""
    profile, limits, engine = message.profile, message.limits, message.engine
    status = _name(model_pb.Model.Status, message.status, "STATUS_")
    return _models.Model(
        id=message.id,
        aliases=tuple(message.aliases),
        family=message.family,
        description=message.description,
        status=cast(Literal["starting", "ready", "refused", "unspecified"], status),
        status_message=message.status_message,
        loaded_at=message.loaded_at.ToDatetime(_UTC) if message.HasField("loaded_at") else None,
        question_types=tuple(message.question_types),
        readouts=tuple(message.readouts),
        profile=_models.Profile(
            name=profile.name,
            prompt_version=profile.prompt_version,
            template_hash=profile.template_hash,
            forward_tokens=profile.forward_tokens,
        ),
        limits=_models.Limits(
            context_tokens=limits.context_tokens,
            questions=limits.questions,
            options=limits.options,
            levels=limits.levels,
            orders=limits.orders,
            passes=limits.passes,
            whole_tokens=limits.whole_tokens,
            message_bytes=limits.message_bytes,
            json_depth=limits.json_depth,
            queued_requests=limits.queued_requests,
        ),
        calibration=_models.Calibration(
            temperature=message.calibration.temperature, source=message.calibration.source
        ),
        engine=_models.Engine(
            device=engine.device,
            blas=engine.blas,
            blas_threads=engine.blas_threads,
            mlx_version=engine.mlx_version,
            head_path=engine.head_path,
            shared_tails=engine.shared_tails,
            costs_hash=engine.costs_hash,
        ),
        parameters=message.parameters,
        quantization=message.quantization,
        self_check=_self_check(message.self_check) if message.HasField("self_check") else None,
        store=_models.Store(
            budget_bytes=message.store.budget_bytes,
            used_bytes=message.store.used_bytes,
            hits=message.store.hits,
            misses=message.store.misses,
            evictions=message.store.evictions,
        ),
    )


def _self_check(message: model_pb.SelfCheck) -> _models.SelfCheck:
    return _models.SelfCheck(
        option_mass=message.option_mass,
        right=message.right,
        asked=message.asked,
        predicate_direction=message.predicate_direction,
    )


def _diagnostics(message: pb.Diagnostics) -> Diagnostics:
    return Diagnostics(
        readout=message.readout,
        profile=message.profile,
        prompt_version=message.prompt_version,
        option_mass=message.option_mass,
        temperature=message.temperature,
        temperature_source=_name(pb.TemperatureSource, message.temperature_source, "TEMPERATURE_SOURCE_"),
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


def _name(enum: Any, number: int, prefix: str) -> str:
    # A value that a newer server knows and this client does not is "unspecified".
    if number not in enum.values():
        return "unspecified"
    return str(enum.Name(number)).removeprefix(prefix).lower()


def _seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos / 1e9


def _unknown(what: str) -> _errors.Internal:
    return _errors.Internal(
        f"the server sent {what} of a kind that this client does not know: upgrade dicast",
        code=grpc.StatusCode.UNKNOWN,
    )
