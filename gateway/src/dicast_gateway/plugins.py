"""Questions of types that the server's plugins bring, and the answers to them."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, model_validator

from dicast import jsontext
from dicast.v1 import decision_pb2 as pb
from dicast_gateway.content import to_json
from dicast_gateway.readouts import PLUGIN
from dicast_gateway.settings import FIELD, AnyQuestion

_OURS = frozenset({"type", "name", "index", FIELD})
"""Fields of an answer that a plugin cannot take."""


class OfPlugin(AnyQuestion):
    """A question whose fields are the plugin's own, apart from those of every question."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    type: str

    @model_validator(mode="before")
    @classmethod
    def _few_unknown(cls, node: Any) -> Any:
        """Keeps them all: none is a fault before the plugin says so."""
        return node

    def message(self) -> pb.ExtensionQuestion:
        """As protobuf."""
        body = jsontext.Object((self.model_extra or {}).items())
        return pb.ExtensionQuestion(type=self.type, json=to_json(body))


def is_of_plugin(node: Any) -> bool:
    """Whether a question's type is one that only a plugin can have."""
    type_ = node.get("type") if isinstance(node, dict) else None
    return isinstance(type_, str) and type_.startswith(PLUGIN)


def to_answer(answer: pb.Extension, common: dict[str, Any]) -> dict[str, Any]:
    """A plugin's answer beside the fields that every answer has.

    What is no object, or would take one of those fields, stands under `value`.
    """
    value = jsontext.parse(answer.json)
    if isinstance(value, jsontext.Object) and not _OURS & value.keys():
        return {**common, **value}
    return {**common, "value": value}
