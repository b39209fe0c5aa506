"""An answered request as the JSON of /v1/decisions."""

from __future__ import annotations

from typing import Any

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast_gateway.settings import shown


def to_json(request: service_pb.DecideRequest, response: service_pb.DecideResponse) -> dict[str, Any]:
    """Answers in the order of the questions; the key `name` is always there."""
    return {
        "model": response.summary.model,
        "answers": [
            one(request, question, answer)
            for question, answer in zip(request.questions, response.answers, strict=True)
        ],
        "usage": _usage(response.summary.usage),
    }


def one(request: service_pb.DecideRequest, question: pb.Question, answer: pb.Answer) -> dict[str, Any]:
    """One answer, with what the request's settings ask for beside it. Raises as `to_json` does."""
    return {**_answer(question, answer), **shown(answer, request.options.detail)}


def _answer(question: pb.Question, answer: pb.Answer) -> dict[str, Any]:
    name = question.name if question.HasField("name") else None
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
        case "refused" | "skipped":
            return {"type": "refusal", "name": name}
        case kind:
            raise ValueError(f"an answer of kind {kind} to a question that asks for none")


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
