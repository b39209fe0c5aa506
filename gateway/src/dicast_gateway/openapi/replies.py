"""Schemas of what comes back: written by hand, since replies are built without models."""

from __future__ import annotations

from dicast_gateway.openapi.details import DETAILS
from dicast_gateway.openapi.notes import CONTENT
from dicast_gateway.openapi.schemas import COUNT, SHARE, TEXT, Schema, by_name, closed, list_of, one_of, ref
from dicast_gateway.readouts import PLUGIN
from dicast_gateway.settings import FIELD

_LEVEL_KEY: Schema = {"pattern": "^[0-9]$"}
_CONFIDENCE: Schema = {**SHARE, "description": "0 for a uniform answer, 1 for a certain one."}
_MODEL: Schema = {**TEXT, "description": "The model that answered: its real name."}
_NAME: Schema = {"type": ["string", "null"], "description": "The question's; null where it has none."}
_SCORE: Schema = {
    "type": "number",
    "minimum": 0,
    "maximum": 9,
    "description": "The expected level: the sum of each level's number times its probability.",
}


def _answer(description: str, kind: str, fields: Schema, detail: str = "AnswerDetail") -> Schema:
    return closed(description, {"type": {"const": kind}, **fields}, {FIELD: ref(detail)})


def _plugin_answer(fields: Schema) -> Schema:
    """The plugin's own fields are beside ours, or its whole answer is under `value`."""
    ours = {"type": {**TEXT, "pattern": f"^{PLUGIN}", "description": "The question's."}, **fields}
    answer = closed("To a question of a plugin's type, with the plugin's own fields.", ours)
    return {**answer, "additionalProperties": True}


_SYSTEM_ONE = {
    "SystemOneReply": closed(
        "An answer to every question that was asked.",
        {
            "model": _MODEL,
            "answers": {
                **by_name({"anyOf": [ref("SystemOneAnswer"), {"type": "null"}]}),
                "description": "By the ids of the questions; null where a question was skipped.",
            },
            "usage": closed("Tokens.", {"input_tokens": COUNT, "output_tokens": COUNT}),
        },
        {
            FIELD: closed(
                "What has no answer: skipped questions, and refused ones where `x_dicast.partial` asks for "
                "what there is.",
                {},
                {"refused": by_name(ref("SystemOneRefusal")), "skipped": by_name(ref("Skip"))},
            )
        },
    ),
    "SystemOneAnswer": one_of(
        "The type is the question's.",
        "SystemOnePluginAnswer",
        noul="NoulAnswer",
        choice="SystemOneChoiceAnswer",
        score="ScoreAnswer",
    ),
    "SystemOnePluginAnswer": _plugin_answer({}),
    "NoulAnswer": _answer("To a yes/no question.", "noul", {"noul": {**SHARE, "description": "P(yes)."}}),
    "SystemOneChoiceAnswer": _answer(
        "To a choice.",
        "choice",
        {
            "choice": {**TEXT, "description": "The most probable option; of equal ones the first."},
            "confidence": _CONFIDENCE,
            "probabilities": {**by_name(SHARE), "description": "Of every option; together 1."},
        },
    ),
    "ScoreAnswer": _answer(
        "To a score.",
        "score",
        {
            "score": _SCORE,
            "confidence": _CONFIDENCE,
            "legend": {
                **by_name(CONTENT, _LEVEL_KEY),
                "description": "The levels' descriptions, as they were sent.",
            },
            "probabilities": {
                **by_name(SHARE, _LEVEL_KEY),
                "description": "Of every level, by its number from 0; together 1.",
            },
        },
    ),
}

_DECISIONS = {
    "DecisionsReply": closed(
        "An answer to every question, in the order of the questions.",
        {
            "model": _MODEL,
            "answers": {**list_of(ref("DecisionsAnswer")), "description": "One for each question."},
            "usage": closed(
                "Tokens.",
                {
                    "input_tokens": COUNT,
                    "input_tokens_details": closed(
                        "Of these.", {"cached_tokens": COUNT, "cache_write_tokens": COUNT}
                    ),
                    "output_tokens": COUNT,
                    "output_tokens_details": closed("Of these.", {"reasoning_tokens": COUNT}),
                    "total_tokens": COUNT,
                },
            ),
        },
    ),
    "DecisionsAnswer": one_of(
        "The type is the question's, or `refusal`.",
        "DecisionsPluginAnswer",
        predicate="PredicateAnswer",
        choice="DecisionsChoiceAnswer",
        score="DecisionsScoreAnswer",
        refusal="RefusalAnswer",
    ),
    "PredicateAnswer": _answer(
        "To a yes/no question.",
        "predicate",
        {"name": _NAME, "probability": {**SHARE, "description": "P(yes)."}},
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
                **list_of(
                    closed("One option.", {"value": {"type": ["string", "boolean"]}, "probability": SHARE})
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
                **list_of(
                    closed(
                        "One level.",
                        {"value": {**COUNT, "maximum": 9}, "label": TEXT, "probability": SHARE},
                    )
                ),
                "description": "Of every level; together 1.",
            },
        },
    ),
    "RefusalAnswer": _answer(
        "To a question that could not be answered.", "refusal", {"name": _NAME}, "RefusalDetail"
    ),
    "DecisionsPluginAnswer": _plugin_answer({"name": _NAME}),
}

_OTHERS = {
    "PrewarmReply": closed(
        "Whether the state is kept.",
        {
            "model": _MODEL,
            "ok": {"type": "boolean", "description": "Whether it is kept."},
            "prompt_tokens": {**COUNT, "description": "Tokens of what every question about it shares."},
            "cached_tokens": {**COUNT, "description": "Of these, how many had been kept before."},
            "reason": {**TEXT, "description": "Why it is not kept; empty where it is."},
        },
    ),
    "Models": closed(
        "The same names twice: as TypeSafe's SDKs read them, and as OpenAI's do.",
        {
            "models": list_of(
                closed(
                    "A name that a request may use.",
                    {"name": TEXT, "description": TEXT, "release_date": {**TEXT, "format": "date"}},
                )
            ),
            "object": {"const": "list"},
            "data": list_of(
                closed(
                    "A name that a request may use.",
                    {
                        "id": TEXT,
                        "object": {"const": "model"},
                        "created": {"type": "integer"},
                        "owned_by": TEXT,
                    },
                )
            ),
        },
    ),
    "Alive": closed("The gateway answers.", {"status": {"const": "alive"}}),
    "Readiness": closed(
        "Whether a decision would be answered now.",
        {
            "status": {"enum": ["ready", "starting", "refused", "unreachable"]},
            "model": {
                "type": ["string", "null"],
                "description": "The default model; null where the server does not say it.",
            },
            "reason": {**TEXT, "description": "For people; empty where there is nothing to remark."},
        },
    ),
}

REPLIES: dict[str, Schema] = {**DETAILS, **_SYSTEM_ONE, **_DECISIONS, **_OTHERS}
"""The schema of every reply but the errors', by its name."""
