"""An answered request as the JSON of /v1/systemone."""

from __future__ import annotations

from functools import partial
from typing import Any

from dicast import jsontext
from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast_gateway import plugins
from dicast_gateway.detail import refusal, shown, skip
from dicast_gateway.dialect import Asked
from dicast_gateway.errors import GatewayError, Kind
from dicast_gateway.settings import FIELD


def to_json(asked: Asked, response: service_pb.DecideResponse) -> dict[str, Any]:
    """The documented fields in their documented order; `x_dicast` says what has no answer, and why.

    Raises:
        GatewayError: a question was refused. This dialect has no form for it, so the request fails, unless
            the caller wants what there is.
    """
    request, usage = asked.request, response.summary.usage
    answers: dict[str, Any] = {}
    refused: dict[str, Any] = {}
    skipped: dict[str, Any] = {}
    for answer in response.answers:
        question = request.questions[answer.index]
        kind = answer.WhichOneof("kind")
        say = partial(_answer, question)
        if asked.partial and kind == "refused":
            refused[question.key] = refusal(answer, say)
        elif kind == "skipped":
            answers[question.key] = None
            skipped[question.key] = skip(answer.skipped, answer.skipped.because)
        else:
            answers[question.key] = {**say(answer), **shown(answer, request.options.detail, say)}
    told = {"refused": refused, "skipped": skipped}
    return {
        "model": response.summary.model,
        "answers": answers,
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
        **({FIELD: {name: some for name, some in told.items() if some}} if refused or skipped else {}),
    }


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
        case "extension":
            return plugins.to_answer(answer.extension, {"type": answer.extension.name})
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
