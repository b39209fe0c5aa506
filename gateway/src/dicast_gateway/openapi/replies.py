"""Schemas of what comes back: written by hand, since replies are built without models."""

from __future__ import annotations

from typing import Any

from dicast_gateway.openapi.notes import CONTENT
from dicast_gateway.settings import FIELD

Schema = dict[str, Any]

_COUNT: Schema = {"type": "integer", "minimum": 0}
_TEXT: Schema = {"type": "string"}
_SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
_LEVEL_KEY: Schema = {"pattern": "^[0-9]$"}
_CONFIDENCE: Schema = {**_SHARE, "description": "0 for a uniform answer, 1 for a certain one."}
_MODEL: Schema = {**_TEXT, "description": "The model that answered: its real name."}
_NAME: Schema = {"type": ["string", "null"], "description": "The question's; null where it has none."}
_SCORE: Schema = {
    "type": "number",
    "minimum": 0,
    "maximum": 9,
    "description": "The expected level: the sum of each level's number times its probability.",
}


def ref(name: str) -> Schema:
    """A reference to a schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def _closed(description: str, required: Schema, optional: Schema | None = None) -> Schema:
    """An object with these fields and no others."""
    return {
        "type": "object",
        "description": description,
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def _list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _by_name(values: Schema, keys: Schema | None = None) -> Schema:
    return {"type": "object", "additionalProperties": values, **({"propertyNames": keys} if keys else {})}


def _answer(description: str, kind: str, fields: Schema) -> Schema:
    return _closed(description, {"type": {"const": kind}, **fields}, {FIELD: ref("AnswerDetail")})


def _one_of(description: str, **kinds: str) -> Schema:
    """One of several answers, told apart by their type."""
    return {
        "description": description,
        "oneOf": [ref(name) for name in kinds.values()],
        "discriminator": {
            "propertyName": "type",
            "mapping": {kind: ref(name)["$ref"] for kind, name in kinds.items()},
        },
    }


_SHARED = {
    "AnswerDetail": _closed(
        "How an answer was read. There with a `detail` of basic or full.",
        {"diagnostics": ref("Diagnostics")},
        {"refused": ref("Refusal")},
    ),
    "Refusal": _closed(
        "Why a question was refused.",
        {"reason": {**_TEXT, "pattern": "^REASON_", "examples": ["REASON_ABSTAINED"]}, "message": _TEXT},
    ),
    "Diagnostics": _closed(
        "How an answer was read.",
        {
            "readout": {**_TEXT, "description": 'By its name, for example "letters".'},
            "profile": {**_TEXT, "description": "Prompt style and published constants of the model."},
            "prompt_version": {**_TEXT, "description": "Changes whenever the text of a prompt does."},
            "option_mass": {"type": "number", "description": "Share of all probability on the options."},
            "temperature": {"type": "number", "description": "The one that was applied."},
            "temperature_source": {**_TEXT, "description": "Where it came from."},
            "forwards": {**_COUNT, "description": "Of the model, those of the shared prefix apart."},
            "passes": {**_COUNT, "description": "Prompts that were read for the question."},
            "orders": {**_COUNT, "description": "Orders of the options that were averaged."},
            "order_spread": {"type": "number", "description": "Largest difference between two orders."},
            "truncated_tokens": {**_COUNT, "description": "Always 0: nothing is cut."},
            "head_path": {**_TEXT, "description": "How the scores were computed."},
            "prompt_hash": {**_TEXT, "description": "SHA-256 of the token ids of all passes."},
            "scores": {
                **_list_of(
                    _closed(
                        "The raw scores of one pass.",
                        {
                            "options": _list_of(_COUNT),
                            "scores": _list_of({"type": "number"}),
                        },
                    )
                ),
                "description": "With a `detail` of full; else empty.",
            },
        },
    ),
}

_SYSTEM_ONE = {
    "SystemOneReply": _closed(
        "An answer to every question.",
        {
            "model": _MODEL,
            "answers": {**_by_name(ref("SystemOneAnswer")), "description": "By the ids of the questions."},
            "usage": _closed("Tokens.", {"input_tokens": _COUNT, "output_tokens": _COUNT}),
        },
        {
            FIELD: _closed(
                "What was left out, where `x_dicast.partial` asked for what there is.",
                {"refused": _by_name(ref("Refusal"))},
            )
        },
    ),
    "SystemOneAnswer": _one_of(
        "The type is the question's.", noul="NoulAnswer", choice="SystemOneChoiceAnswer", score="ScoreAnswer"
    ),
    "NoulAnswer": _answer("To a yes/no question.", "noul", {"noul": {**_SHARE, "description": "P(yes)."}}),
    "SystemOneChoiceAnswer": _answer(
        "To a choice.",
        "choice",
        {
            "choice": {**_TEXT, "description": "The most probable option; of equal ones the first."},
            "confidence": _CONFIDENCE,
            "probabilities": {**_by_name(_SHARE), "description": "Of every option; together 1."},
        },
    ),
    "ScoreAnswer": _answer(
        "To a score.",
        "score",
        {
            "score": _SCORE,
            "confidence": _CONFIDENCE,
            "legend": {
                **_by_name(CONTENT, _LEVEL_KEY),
                "description": "The levels' descriptions, as they were sent.",
            },
            "probabilities": {
                **_by_name(_SHARE, _LEVEL_KEY),
                "description": "Of every level, by its number from 0; together 1.",
            },
        },
    ),
}

_DECISIONS = {
    "DecisionsReply": _closed(
        "An answer to every question, in the order of the questions.",
        {
            "model": _MODEL,
            "answers": {**_list_of(ref("DecisionsAnswer")), "description": "One for each question."},
            "usage": _closed(
                "Tokens.",
                {
                    "input_tokens": _COUNT,
                    "input_tokens_details": _closed(
                        "Of these.", {"cached_tokens": _COUNT, "cache_write_tokens": _COUNT}
                    ),
                    "output_tokens": _COUNT,
                    "output_tokens_details": _closed("Of these.", {"reasoning_tokens": _COUNT}),
                    "total_tokens": _COUNT,
                },
            ),
        },
    ),
    "DecisionsAnswer": _one_of(
        "The type is the question's, or `refusal`.",
        predicate="PredicateAnswer",
        choice="DecisionsChoiceAnswer",
        score="DecisionsScoreAnswer",
        refusal="RefusalAnswer",
    ),
    "PredicateAnswer": _answer(
        "To a yes/no question.",
        "predicate",
        {"name": _NAME, "probability": {**_SHARE, "description": "P(yes)."}},
    ),
    "DecisionsChoiceAnswer": _answer(
        "To a choice.",
        "choice",
        {
            "name": _NAME,
            "choice": {
                "type": ["string", "boolean"],
                "description": "The most probable value; of equal ones the first.",
            },
            "confidence": _CONFIDENCE,
            "probabilities": {
                **_list_of(
                    _closed("One option.", {"value": {"type": ["string", "boolean"]}, "probability": _SHARE})
                ),
                "description": "Of every option; together 1.",
            },
        },
    ),
    "DecisionsScoreAnswer": _answer(
        "To a score.",
        "score",
        {
            "name": _NAME,
            "score": _SCORE,
            "confidence": _CONFIDENCE,
            "probabilities": {
                **_list_of(
                    _closed(
                        "One level.",
                        {"value": {**_COUNT, "maximum": 9}, "label": _TEXT, "probability": _SHARE},
                    )
                ),
                "description": "Of every level; together 1.",
            },
        },
    ),
    "RefusalAnswer": _answer("To a question that could not be answered.", "refusal", {"name": _NAME}),
}

_OTHERS = {
    "PrewarmReply": _closed(
        "Whether the state is kept.",
        {
            "model": _MODEL,
            "ok": {"type": "boolean", "description": "Whether it is kept."},
            "prompt_tokens": {**_COUNT, "description": "Tokens of what every question about it shares."},
            "cached_tokens": {**_COUNT, "description": "Of these, how many had been kept before."},
            "reason": {**_TEXT, "description": "Why it is not kept; empty where it is."},
        },
    ),
    "Models": _closed(
        "The same names twice: as TypeSafe's SDKs read them, and as OpenAI's do.",
        {
            "models": _list_of(
                _closed(
                    "A name that a request may use.",
                    {"name": _TEXT, "description": _TEXT, "release_date": {**_TEXT, "format": "date"}},
                )
            ),
            "object": {"const": "list"},
            "data": _list_of(
                _closed(
                    "A name that a request may use.",
                    {
                        "id": _TEXT,
                        "object": {"const": "model"},
                        "created": {"type": "integer"},
                        "owned_by": _TEXT,
                    },
                )
            ),
        },
    ),
    "Alive": _closed("The gateway answers.", {"status": {"const": "alive"}}),
    "Readiness": _closed(
        "Whether a decision would be answered now.",
        {
            "status": {"enum": ["ready", "starting", "refused", "unreachable"]},
            "model": {
                "type": ["string", "null"],
                "description": "The default model; null where the server does not say it.",
            },
            "reason": {**_TEXT, "description": "For people; empty where there is nothing to remark."},
        },
    ),
}

REPLIES: dict[str, Schema] = {**_SHARED, **_SYSTEM_ONE, **_DECISIONS, **_OTHERS}
"""The schema of every reply but the errors', by its name."""
