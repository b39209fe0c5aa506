"""The parts that schemas are made of."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

COUNT: Schema = {"type": "integer", "minimum": 0}
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": ["number", "null"]}
"""Of what may come out as no number, which is null in JSON."""
SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}


def ref(name: str) -> Schema:
    """A reference to a schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def closed(description: str, required: Schema, optional: Schema | None = None) -> Schema:
    """An object with these fields and no others."""
    return {
        "type": "object",
        "description": description,
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def list_of(items: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": items}


def by_name(values: Schema, keys: Schema | None = None) -> Schema:
    """An object with any keys, or with such keys."""
    return {"type": "object", "additionalProperties": values, **({"propertyNames": keys} if keys else {})}


def one_of(description: str, other: str, **kinds: str) -> Schema:
    """One of several answers, told apart by their type, or another one whose type is none of these."""
    told_apart = {
        "oneOf": [ref(name) for name in kinds.values()],
        "discriminator": {
            "propertyName": "type",
            "mapping": {kind: ref(name)["$ref"] for kind, name in kinds.items()},
        },
    }
    return {"description": description, "anyOf": [told_apart, ref(other)]}
