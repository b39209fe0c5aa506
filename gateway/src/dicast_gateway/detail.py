"""What is told beside an answer: how it was read, and why there is none."""

from __future__ import annotations

from typing import Any

from dicast.v1 import decision_pb2 as pb
from dicast_gateway.protojson import to_json
from dicast_gateway.settings import FIELD


def shown(answer: pb.Answer, detail: int) -> dict[str, Any]:
    """What the settings ask for beside an answer: nothing, or the field `x_dicast`."""
    # A question that was skipped was not read, so there is nothing to tell of the reading.
    if detail < pb.DETAIL_LEVEL_BASIC or answer.WhichOneof("kind") == "skipped":
        return {}
    told: dict[str, Any] = {"diagnostics": to_json(answer.diagnostics)}
    if answer.WhichOneof("kind") == "refused":
        told["refused"] = refusal(answer.refused)
    return {FIELD: told}


def refusal(refused: pb.RefusedAnswer) -> dict[str, Any]:
    """Why a question was refused."""
    return {"reason": pb.RefusedAnswer.Reason.Name(refused.reason), "message": refused.message}


def skip(skipped: pb.SkippedAnswer, because: str | int) -> dict[str, Any]:
    """Why a question was skipped; `because` is what the dialect calls the one that decided it."""
    return {"because": because, "was": _value(skipped.was)}


def _value(value: pb.AnswerValue) -> bool | str | int | None:
    kind = value.WhichOneof("value")
    # Null: that question was itself skipped or refused.
    return None if kind is None else getattr(value, kind)
