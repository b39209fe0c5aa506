"""What is told beside an answer: how it was read, and why there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from dicast.v1 import decision_pb2 as pb
from dicast_gateway.protojson import to_json
from dicast_gateway.settings import FIELD

WouldBe: TypeAlias = Callable[[pb.Answer], dict[str, Any]]
"""Says an answer as a dialect does."""


def shown(answer: pb.Answer, detail: int, would_be: WouldBe) -> dict[str, Any]:
    """What is told beside an answer: nothing, or the field `x_dicast`.

    The settings ask for it, by a detail or by a certainty that the answer did not reach. `would_be` says an
    answer in the dialect's own form.
    """
    kind = answer.WhichOneof("kind")
    told: dict[str, Any] = {}
    # A question that was skipped was not read, so there is nothing to tell of the reading.
    detailed = detail >= pb.DETAIL_LEVEL_BASIC and kind != "skipped"
    if detailed:
        told["diagnostics"] = to_json(answer.diagnostics)
    if kind == "refused" and (detailed or answer.refused.WhichOneof("would_be") is not None):
        told["refused"] = refusal(answer, would_be)
    return {FIELD: told} if told else {}


def refusal(answer: pb.Answer, would_be: WouldBe) -> dict[str, Any]:
    """Why a question was refused, and the answer that was not certain enough where there is one."""
    refused = answer.refused
    told = {"reason": pb.RefusedAnswer.Reason.Name(refused.reason), "message": refused.message}
    if (kind := refused.WhichOneof("would_be")) is None:
        return told
    said = pb.Answer(index=answer.index, key=answer.key)
    getattr(said, kind).CopyFrom(getattr(refused, kind))
    return {**told, "would_be": would_be(said)}


def skip(skipped: pb.SkippedAnswer, because: str | int) -> dict[str, Any]:
    """Why a question was skipped; `because` is what the dialect calls the one that decided it."""
    return {"because": because, "was": _value(skipped.was)}


def _value(value: pb.AnswerValue) -> bool | str | int | None:
    kind = value.WhichOneof("value")
    # Null: that question was itself skipped or refused.
    return None if kind is None else getattr(value, kind)
