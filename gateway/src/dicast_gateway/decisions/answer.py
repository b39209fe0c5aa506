"""An answered request as the JSON of /v1/decisions."""

from __future__ import annotations

from functools import partial
from typing import Any

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast_gateway import plugins
from dicast_gateway.detail import shown, skip
from dicast_gateway.settings import FIELD


def to_json(request: service_pb.DecideRequest, response: service_pb.DecideResponse) -> dict[str, Any]:
    """Answers to what was asked, in the order of the questions; the key `name` is always there."""
    say = partial(_answer, request)
    return {
        "model": response.summary.model,
        "answers": [
            {**say(answer), **shown(answer, request.options.detail, say)} for answer in response.answers
        ],
        "usage": _usage(response.summary.usage),
    }


def _answer(request: service_pb.DecideRequest, answer: pb.Answer) -> dict[str, Any]:
    name = _name(request.questions[answer.index])
    match answer.WhichOneof("kind"):
        case "predicate":
            return {"type": "predicate", "name": name, "probability": answer.predicate.probability}
        case "choice":
            return {
                "type": "choice",
                "name": name,
                "choice": _value(answer.choice.value),
                "confidence": answer.choice.confidence,
                "probabilities": [
                    {"value": _value(option.value), "probability": option.probability}
                    for option in answer.choice.probabilities
                ],
            }
        case "score":
            return {
                "type": "score",
                "name": name,
                "score": answer.score.score,
                "confidence": answer.score.confidence,
                "probabilities": [
                    {"value": level.level, "label": level.label, "probability": level.probability}
                    for level in answer.score.probabilities
                ],
            }
        case "extension":
            return plugins.to_answer(answer.extension, {"type": answer.extension.name, "name": name})
        case "refused":
            return {"type": "refusal", "name": name}
        case "skipped":
            # Its key is its place.
            decided = int(answer.skipped.because)
            because = _name(request.questions[decided])
            told = skip(answer.skipped, decided if because is None else because)
            return {"type": "refusal", "name": name, FIELD: {"skipped": told}}
        case kind:
            raise ValueError(f"an answer of kind {kind} to a question that asks for none")


def _name(question: pb.Question) -> str | None:
    return question.name if question.HasField("name") else None


def _value(value: pb.OptionValue) -> str | bool:
    return value.bool_value if value.WhichOneof("value") == "bool_value" else value.string_value


def _usage(usage: pb.Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
