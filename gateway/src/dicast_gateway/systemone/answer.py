"""An answered request as the JSON of /v1/systemone."""

from __future__ import annotations

from typing import Any

from dicast import jsontext
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast_gateway.dialect import Asked
from dicast_gateway.errors import GatewayError, Kind
from dicast_gateway.settings import FIELD, refusal, shown


def to_json(asked: Asked, response: service_pb.DecideResponse) -> dict[str, Any]:
    """The documented fields in their documented order, and no others; `x_dicast` where one is left out.

    Raises:
        GatewayError: a question was refused. This dialect has no form for it, so the request fails, unless
            the caller wants what there is.
    """
    request, usage = asked.request, response.summary.usage
    answers: dict[str, Any] = {}
    refused: dict[str, Any] = {}
    for question, answer in zip(request.questions, response.answers, strict=True):
        if asked.partial and answer.WhichOneof("kind") == "refused":
            refused[question.key] = refusal(answer.refused)
        else:
            answers[question.key] = one(request, question, answer)
    return {
        "model": response.summary.model,
        "answers": answers,
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
        **({FIELD: {"refused": refused}} if refused else {}),
    }


def one(request: service_pb.DecideRequest, question: pb.Question, answer: pb.Answer) -> dict[str, Any]:
    """One answer, with what the request's settings ask for beside it. Raises as `to_json` does."""
    return {**_answer(question, answer), **shown(answer, request.options.detail)}


def _answer(question: pb.Question, answer: pb.Answer) -> dict[str, Any]:
    match answer.WhichOneof("kind"):
        case "predicate":
            return {"type": "noul", "noul": answer.predicate.probability}
        case "choice":
            return {
                "type": "choice",
                "choice": answer.choice.value.string_value,
                "confidence": answer.choice.confidence,
                "probabilities": {
                    option.value.string_value: option.probability for option in answer.choice.probabilities
                },
            }
        case "score":
            return {
                "type": "score",
                "score": answer.score.score,
                "confidence": answer.score.confidence,
                "legend": {
                    str(index): _legend(level.description)
                    for index, level in enumerate(question.score.levels)
                },
                "probabilities": {
                    str(level.level): level.probability for level in answer.score.probabilities
                },
            }
        case "refused":
            raise GatewayError(Kind.REFUSED, f"questions.{question.key}: {answer.refused.message}")
        case kind:
            raise ValueError(f"an answer of kind {kind} to a question that asks for none")


def _legend(description: pb.Content) -> jsontext.Value:
    if description.WhichOneof("kind") == "text":
        return description.text
    # Clients refuse a legend of null.
    value = jsontext.parse(description.json)
    return "" if value is None else value
