"""Schemas of the bodies that are read: derived from the models that read them, so that they cannot drift."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core.core_schema import PlainValidatorFunctionSchema

from dicast_gateway import prewarm
from dicast_gateway.conditions import MAX_LEVEL
from dicast_gateway.decisions import request as decisions
from dicast_gateway.openapi.notes import CONTENT, NOTES
from dicast_gateway.systemone import request as systemone

_BODIES = (systemone.Body, decisions.Body, prewarm.Body)

# What only a function of the models checks, by that function's name.
_CHECKED = {
    "_check_content": CONTENT,
    "_check_data": {"anyOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]},
    "_check_value": {"type": ["string", "boolean"]},
    "_check_answer": {"type": ["string", "boolean", "integer"], "minimum": 0, "maximum": MAX_LEVEL},
}
# Pydantic names two models of one name by their modules.
_LONG_NAME = re.compile(r"dicast_gateway__(systemone|decisions|prewarm)(?:__request)?__(\w+)")
_DIALECTS = {"systemone": "SystemOne", "decisions": "Decisions", "prewarm": "Prewarm"}
# Images are read so that they can be refused by name: no request with one is answered.
_IMAGE = "ImagePart"


class _Derived(GenerateJsonSchema):
    def function_plain_schema(self, schema: PlainValidatorFunctionSchema) -> JsonSchemaValue:
        return dict(_CHECKED[schema["function"]["function"].__name__])


def request_schemas() -> dict[str, Any]:
    """The schema of every body and of what is in it, by its name."""
    _, derived = models_json_schema(
        [(body, "validation") for body in _BODIES],
        ref_template="#/components/schemas/{model}",
        schema_generator=_Derived,
    )
    named = json.loads(_LONG_NAME.sub(_short_name, json.dumps(derived["$defs"])))
    schemas: dict[str, Any] = _tidy({name: schema for name, schema in named.items() if name != _IMAGE})
    for place, note in NOTES.items():
        name, _, field = place.partition(".")
        schema = schemas[name]["properties"][field] if field else schemas[name]
        schema.update(note)
    return schemas


def _short_name(found: re.Match[str]) -> str:
    return _DIALECTS[found[1]] + found[2].replace("Body", "Request")


def _tidy(node: Any) -> Any:
    """Without titles that repeat a name, without defaults of null, and without images."""
    if isinstance(node, list):
        return [_tidy(item) for item in node if item != {"$ref": f"#/components/schemas/{_IMAGE}"}]
    if not isinstance(node, dict):
        return node
    return {
        key: _tidy(value)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str)) and not (key == "default" and value is None)
    }
