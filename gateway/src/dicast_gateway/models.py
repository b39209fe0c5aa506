"""`GET /v1/models`: one body that both TypeSafe's and OpenAI's SDKs can read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dicast.v1 import model_service_pb2 as model_pb


def models_json(models: Iterable[model_pb.Model]) -> dict[str, Any]:
    """All names that a request may use now: a model that is loading or refused has none."""
    ready = [model for model in models if model.status == model_pb.Model.STATUS_READY]
    names = [(name, model) for model in ready for name in (model.id, *model.aliases)]
    return {
        "models": [
            {
                "name": name,
                "description": _description(name, model),
                "release_date": model.loaded_at.ToDatetime().date().isoformat(),
            }
            for name, model in names
        ],
        "object": "list",
        "data": [
            {"id": name, "object": "model", "created": model.loaded_at.seconds, "owned_by": "dicast"}
            for name, model in names
        ],
    }


def _description(name: str, model: model_pb.Model) -> str:
    return model.description if name == model.id else f"{model.id}: {model.description}"
