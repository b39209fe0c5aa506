"""What the fields of a request mean, and the limits that the server behind the gateway holds them to."""

from __future__ import annotations

from typing import Any

from dicast_gateway.readouts import PLUGIN

CONTENT: dict[str, Any] = {"type": ["string", "object", "array"]}
"""What may stand where text stands."""

_NOT_NULL = {"not": {"type": "null"}}
_INSTRUCTIONS = (
    "What is asked. Absent or null, a sentence that fits the type stands in; an empty string stays empty."
)
_PARTS = "What is asked: a text, or parts that are joined by a newline."
_NAME = (
    "Comes back in the answer and never reaches the model. Names may repeat, where nothing refers to them."
)
_READOUT = "How this question is read, where it differs from the request."
_MODEL = (
    "A name of `GET /v1/models`. `jev-latest`, `jev-preview`, an empty string and no name at all mean the "
    "default model; the reply has the real one."
)
_SALT = "Keeps states apart: who sends another salt finds nothing of what is kept."
_DETAIL = "How much an answer tells about how it was read. Not said, nothing."
_SEED: dict[str, Any] = {
    "description": "A whole number, written without a fraction. No readout of this version draws.",
    "minimum": 0,
    "maximum": 2**64 - 1,
}
_TEMPERATURE: dict[str, Any] = {
    "description": "Divides the scores before they become probabilities. Not said, the server's.",
    "minimum": 0.05,
    "maximum": 20,
}
_ORDERS: dict[str, Any] = {"minimum": 1, "maximum": 32}
_ASK_IF: dict[str, Any] = {
    "description": "Other questions of the request, each with the answers under which this one is asked; all "
    "must hold, or it is skipped. A yes/no question's are true and false (or yes and no), a choice's its "
    "options, a score's the level as a number, in digits or by its text."
}
_SHARE: dict[str, Any] = {"minimum": 0, "maximum": 1}
_TEXT = "The text."
_PLUGIN = f"^{PLUGIN}"
_PRIOR = "Subtracts the scores after a state without content."
_CANDIDATES: dict[str, dict[str, Any]] = {
    "scoring": {
        "description": "Reads one token a text, or all of its tokens and the end of the turn. Not said, one "
        "token where each text is one."
    },
    "normalize_length": {"description": "Divides the score of all tokens by their number."},
    "correct_prior": {"description": _PRIOR},
}
_TOOL: dict[str, dict[str, Any]] = {
    "call_id": {"description": "What a result names to refer to its call."},
    "name": {"description": "The name of the tool."},
    "id": {"description": "Means nothing here."},
    "namespace": {"description": "Means nothing here."},
    "status": {"description": "How far the call is. Means nothing here."},
}

_SETTINGS: dict[str, dict[str, Any]] = {
    "readout": {"description": "How the questions are read."},
    "orders": {"description": "Orders of the options to average. Not said, one.", **_ORDERS},
    "temperature": _TEMPERATURE,
    "detail": {"description": _DETAIL},
    "seed": _SEED,
    "cache_salt": {"description": _SALT},
    "abstain": {"description": "Below which certainty a question is refused instead of answered."},
    "isolated": {"description": "Reads each question by itself, so that not even float noise is shared."},
    "mode": {"description": "Whether questions share what is read of the state. Not said, shared."},
    "ask": {"description": "Another place for `ask`."},
}
_SHARED_FIELDS: dict[str, dict[str, Any]] = {
    "x_dicast": {"description": "Settings of dicast."},
    "extra": {"description": "Other servers' name for some of the settings."},
    "samples": {
        "description": 'Another name for `x_dicast.orders`. "auto" leaves it to the server.',
        "anyOf": [{"type": "integer", **_ORDERS}, {"const": "auto"}, {"type": "null"}],
    },
    "seed": {**_SEED, "description": "Another name for `x_dicast.seed`."},
    "ask": {"description": "The questions to ask. Not said, all; the others get no answer."},
    "model": {"description": _MODEL, "examples": ["jev-latest"]},
}


def _fields(name: str, notes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {f"{name}.{field}": note for field, note in notes.items()}


def _readouts(name: str, candidates: str) -> dict[str, dict[str, Any]]:
    """Exactly one of ours, or one of a plugin under its name. Null names none."""
    told = {
        "letters": ("Letters", "The options are lettered, and the letters' scores read."),
        "direct": ("Direct", "The options are labelled in a JSON prompt, and the labels' scores read."),
        "candidates": (candidates, "Each option's text is scored as the reply."),
    }
    fields = {
        field: {"anyOf": [{"$ref": f"#/components/schemas/{settings}"}], "description": text}
        for field, (settings, text) in told.items()
    }
    whole = {
        "minProperties": 1,
        "maxProperties": 1,
        "patternProperties": {_PLUGIN: {"type": "object"}},
        "additionalProperties": False,
    }
    return {name: whole, **_fields(name, fields)}


def _plugin_question(name: str, place: str) -> dict[str, dict[str, Any]]:
    return {
        f"{name}.type": {"description": "The type's name, as the plugin has it.", "pattern": _PLUGIN},
        f"{name}.instructions": {"description": "What is asked."},
        f"{name}.name": {"description": place},
        f"{name}.x_dicast": {"description": _READOUT},
        f"{name}.ask_if": _ASK_IF,
    }


_QUESTIONS = {"maxProperties": 400, "propertyNames": {"minLength": 1}}

NOTES: dict[str, dict[str, Any]] = {
    **_fields("Settings", _SETTINGS),
    **_fields("PartialSettings", _SETTINGS),
    "PartialSettings.partial": {
        "description": "Leaves refused questions out of `answers` and lists them in the reply's "
        "`x_dicast.refused`, where the request would fail otherwise."
    },
    "QuestionSettings.readout": {"description": _READOUT},
    "QuestionSettings.ask_if": _ASK_IF,
    **_readouts("Readout", "Candidates"),
    **_readouts("QuestionReadout", "QuestionCandidates"),
    "Letters.style": {"description": "`A) name` or `[A] name`. Not said, the profile's."},
    "Letters.correct_prior": {"description": f"{_PRIOR} Not said, the profile's choice."},
    "Direct.hide_names": {"description": "Shows descriptions without the options' names."},
    **_fields("Candidates", _CANDIDATES),
    **_fields("QuestionCandidates", _CANDIDATES),
    "QuestionCandidates.texts": {
        "description": "The reply that stands for each option, in their order. Not said, their names.",
        "anyOf": [{"type": "array", "items": {"type": "string"}, "minItems": 2}, {"type": "null"}],
    },
    "Abstain.min_confidence": {"description": "Least confidence; predicates have none.", **_SHARE},
    "Abstain.min_option_mass": {"description": "Least share of probability on the options.", **_SHARE},
    "Abstain.max_error": {
        "description": "Largest share of errors among answered questions. The server's calibration must have "
        "a threshold for it.",
        "exclusiveMinimum": 0,
        "maximum": 0.5,
    },
    "Extra.calibration_temperature": {**_TEMPERATURE, "description": "As `x_dicast.temperature`."},
    "Extra.seed": {**_SEED, "description": "As `x_dicast.seed`."},
    "Extra.detail": {"description": "As `x_dicast.detail`."},
    # System One
    **_fields("SystemOneRequest", _SHARED_FIELDS),
    "SystemOneRequest.state": {"description": "What the questions are about. Keys may repeat in it."},
    "SystemOneRequest.questions": {
        "description": "1 to 400 questions by an id of the caller's, which never reaches the model.",
        **_QUESTIONS,
    },
    "SystemOneRequest.assets": {"type": "null", "description": "Images are not served yet: 400."},
    "Noul": {
        # Nothing would be asked without either.
        "anyOf": [
            {"required": ["instructions"], "properties": {"instructions": _NOT_NULL}},
            {
                "required": ["criteria"],
                "properties": {
                    "criteria": {
                        "type": "object",
                        "anyOf": [
                            {"required": ["true"], "properties": {"true": _NOT_NULL}},
                            {"required": ["false"], "properties": {"false": _NOT_NULL}},
                        ],
                    }
                },
            },
        ],
    },
    "Noul.type": {"description": "A yes/no question."},
    "Noul.instructions": {"description": "What is asked. Needed where no criterion says it."},
    "Noul.criteria": {"description": "What yes and no mean; one of the two is enough."},
    "Noul.x_dicast": {"description": _READOUT},
    "Noul.ask_if": _ASK_IF,
    "NoulCriteria.true": {"description": "When the answer is yes."},
    "NoulCriteria.false": {"description": "When the answer is no."},
    "SystemOneChoice.type": {"description": "Which option fits best?"},
    "SystemOneChoice.instructions": {"description": _INSTRUCTIONS},
    "SystemOneChoice.criteria": {
        "description": "2 to 255 options in the order of the prompt: a name, and a description or null.",
        "minProperties": 2,
        "maxProperties": 255,
    },
    "SystemOneChoice.x_dicast": {"description": _READOUT},
    "SystemOneChoice.ask_if": _ASK_IF,
    "SystemOneScore.type": {"description": "How far up a scale?"},
    "SystemOneScore.instructions": {"description": _INSTRUCTIONS},
    "SystemOneScore.criteria": {
        "description": "2 to 10 descriptions of levels, lowest first.",
        "minItems": 2,
        "maxItems": 10,
    },
    "SystemOneScore.x_dicast": {"description": _READOUT},
    "SystemOneScore.ask_if": _ASK_IF,
    **_plugin_question("SystemOnePluginQuestion", "Not here: a question has its id."),
    "SystemOnePluginQuestion.name": {"type": "null", "description": "Not here: a question has its id."},
    # Decisions
    **_fields("DecisionsRequest", _SHARED_FIELDS),
    "DecisionsRequest.input": {
        "description": "What the questions are about: a text, or the items of a conversation. A result has "
        "its call before it.",
        # Of an array; a text may be empty.
        "minItems": 1,
    },
    "DecisionsRequest.questions": {"description": "1 to 400 questions.", "maxItems": 400},
    "DecisionsRequest.prompt_cache_key": {"description": _SALT},
    "DecisionsRequest.prompt_cache_options": {"description": "Understood; changes nothing."},
    "DecisionsRequest.safety_identifier": {"description": "Who asked, for the server's own eyes."},
    "PromptCacheOptions.mode": {"description": "Understood; changes nothing."},
    "PromptCacheOptions.ttl": {"description": "Understood; changes nothing."},
    "Predicate.type": {"description": "A yes/no question."},
    "Predicate.instructions": {"description": _PARTS},
    "Predicate.name": {"description": _NAME},
    "Predicate.x_dicast": {"description": _READOUT},
    "Predicate.ask_if": _ASK_IF,
    "DecisionsChoice.type": {"description": "Which option fits best?"},
    "DecisionsChoice.instructions": {"description": _PARTS},
    "DecisionsChoice.choices": {
        "description": "2 to 255 options of different values, in the order of the prompt.",
        "minItems": 2,
        "maxItems": 255,
    },
    "DecisionsChoice.name": {"description": _NAME},
    "DecisionsChoice.x_dicast": {"description": _READOUT},
    "DecisionsChoice.ask_if": _ASK_IF,
    "Option.value": {"description": "What comes back if it is chosen."},
    "Option.description": {"description": "When it is the right one."},
    "DecisionsScore.type": {"description": "How far up a scale?"},
    "DecisionsScore.instructions": {"description": _PARTS},
    "DecisionsScore.levels": {"description": "2 to 10 levels, lowest first.", "minItems": 2, "maxItems": 10},
    "DecisionsScore.name": {"description": _NAME},
    "DecisionsScore.x_dicast": {"description": _READOUT},
    "DecisionsScore.ask_if": _ASK_IF,
    **_plugin_question("DecisionsPluginQuestion", _NAME),
    "Level.label": {"description": "The level's name, which the answer repeats."},
    "Level.description": {"description": "When it is the right one."},
    "TextPart.text": {"description": _TEXT},
    "TextPart.prompt_cache_breakpoint": {"description": "Understood; changes nothing."},
    "QuestionTextPart.text": {"description": _TEXT},
    "OutputTextPart.text": {"description": _TEXT},
    "RefusalPart.refusal": {"description": _TEXT},
    "JsonPart.data": {"description": "An object or an array of objects. Keys may repeat in it."},
    "UserMessage.content": {"description": "A text, or parts that are joined by a newline."},
    "SystemMessage.content": {"description": "A text, or parts that are joined by a newline."},
    "AssistantMessage.content": {"description": "A text, or parts that are joined by a newline."},
    "AssistantMessage.phase": {"description": "Which part of its turn it is. Means nothing here."},
    **_fields("FunctionCall", _TOOL),
    "FunctionCall.arguments": {"description": "The arguments, as the model wrote them."},
    **_fields("CustomToolCall", _TOOL),
    "CustomToolCall.input": {"description": "What the tool was given."},
    "ToolCallOutput.call_id": {"description": "The call before it that this is the result of."},
    "ToolCallOutput.output": {"description": "What the tool answered."},
    "ToolCallOutput.id": _TOOL["id"],
    "ToolCallOutput.status": _TOOL["status"],
    # Prewarm
    "PrewarmRequest.model": {"description": _MODEL, "examples": ["jev-latest"]},
    "PrewarmRequest.state": {"description": "The state to read. Keys may repeat in it."},
    "PrewarmRequest.time_to_live_s": {
        "description": "For how many seconds to hold it: up to a day. Not said, it stays as long as others.",
        # Shorter than the microsecond that the contract counts in is nothing.
        "minimum": 1e-6,
    },
    "PrewarmRequest.cache_salt": {"description": _SALT},
}
