"""Examples of requests that work, and of what comes back."""

from __future__ import annotations

from typing import Any

_STATE = "Parcel 7 has not moved for nine days. It was charged twice."
_TEAMS = {"billing": "charges and refunds", "shipping": "lost or late parcels"}
_LEVELS = ["can wait", "this week", "today"]
_MODEL = "smollm2-135m-instruct"

SYSTEMONE_REQUESTS: dict[str, Any] = {
    "every type of question": {
        "model": "jev-latest",
        "state": {"order": 7, "note": "The parcel has not moved for nine days."},
        "questions": {
            "late": {"type": "noul", "instructions": "Is the parcel late?"},
            "team": {"type": "choice", "instructions": "Who should look into it?", "criteria": _TEAMS},
            "urgency": {"type": "score", "instructions": "How urgent is it?", "criteria": _LEVELS},
        },
    },
    "criteria instead of instructions": {
        "state": _STATE,
        "questions": {
            "late": {"type": "noul", "criteria": {"true": "no scan for a week", "false": None}},
            "team": {"type": "choice", "criteria": {"billing": None, "shipping": None}},
        },
    },
    "settings": {
        "state": _STATE,
        "questions": {"late": {"type": "noul", "instructions": "Is the parcel late?"}},
        "x_dicast": {"temperature": 1.2, "detail": "full", "cache_salt": "tenant 12", "partial": True},
    },
    "conditions": {
        "state": _STATE,
        "questions": {
            "late": {"type": "noul", "instructions": "Is the parcel late?"},
            "team": {"type": "choice", "criteria": _TEAMS, "ask_if": {"late": ["yes"]}},
            "urgency": {"type": "score", "criteria": _LEVELS, "ask_if": {"team": ["billing", "shipping"]}},
        },
        "ask": ["late", "team"],
    },
    "readouts": {
        "state": _STATE,
        "questions": {
            "late": {
                "type": "noul",
                "instructions": "Is the parcel late?",
                "x_dicast": {"readout": {"candidates": {"texts": ["It is late", "It is in time"]}}},
            },
            "team": {"type": "choice", "criteria": _TEAMS},
        },
        "x_dicast": {"readout": {"direct": {}}, "orders": 2},
    },
}

DECISIONS_REQUESTS: dict[str, Any] = {
    "every type of question": {
        "model": "jev-latest",
        "input": _STATE,
        "questions": [
            {"type": "predicate", "name": "late", "instructions": "Is the parcel late?"},
            {
                "type": "choice",
                "name": "team",
                "instructions": "Who should look into it?",
                "choices": [{"value": name, "description": means} for name, means in _TEAMS.items()],
            },
            {
                "type": "score",
                "name": "urgency",
                "instructions": "How urgent is it?",
                "levels": [{"label": label} for label in _LEVELS],
            },
        ],
    },
    "a conversation": {
        "input": [
            {"role": "user", "content": "Where is my parcel?"},
            {"type": "function_call", "call_id": "1", "name": "track", "arguments": '{"parcel": 7}'},
            {"type": "function_call_output", "call_id": "1", "output": "no scan for nine days"},
        ],
        "questions": [
            {
                "type": "choice",
                "instructions": [{"type": "input_text", "text": "Is a refund due?"}],
                "choices": [{"value": True}, {"value": False}],
            }
        ],
        "prompt_cache_key": "tenant 12",
        "x_dicast": {"detail": "basic"},
    },
    "conditions": {
        "input": _STATE,
        "questions": [
            {"type": "predicate", "name": "late", "instructions": "Is the parcel late?"},
            {
                "type": "score",
                "instructions": "How urgent is it?",
                "levels": [{"label": label} for label in _LEVELS],
                "ask_if": {"late": [True]},
            },
        ],
        "x_dicast": {"readout": {"letters": {"correct_prior": True}}},
    },
    "a JSON value": {
        "input": [{"role": "user", "content": [{"type": "input_json", "data": {"parcel": 7, "scans": []}}]}],
        "questions": [{"type": "predicate", "instructions": "Is the parcel late?"}],
    },
}

PREWARM_REQUESTS: dict[str, Any] = {
    "for an hour": {"state": _STATE, "time_to_live_s": 3600},
    "as long as others": {"model": "jev-latest", "state": {"parcel": 7}},
}

SYSTEMONE_REPLY: dict[str, Any] = {
    "model": _MODEL,
    "answers": {
        "late": {"type": "noul", "noul": 0.93},
        "team": {
            "type": "choice",
            "choice": "shipping",
            "confidence": 0.9,
            "probabilities": {"billing": 0.05, "shipping": 0.95},
        },
        "urgency": {
            "type": "score",
            "score": 1.5,
            "confidence": 0.25,
            "legend": {"0": "can wait", "1": "this week", "2": "today"},
            "probabilities": {"0": 0.1, "1": 0.3, "2": 0.6},
        },
    },
    "usage": {"input_tokens": 171, "output_tokens": 0},
}

DECISIONS_REPLY: dict[str, Any] = {
    "model": _MODEL,
    "answers": [
        {"type": "predicate", "name": "late", "probability": 0.93},
        {
            "type": "choice",
            "name": "team",
            "choice": "shipping",
            "confidence": 0.9,
            "probabilities": [
                {"value": "billing", "probability": 0.05},
                {"value": "shipping", "probability": 0.95},
            ],
        },
        {
            "type": "score",
            "name": "urgency",
            "score": 1.5,
            "confidence": 0.25,
            "probabilities": [
                {"value": 0, "label": "can wait", "probability": 0.1},
                {"value": 1, "label": "this week", "probability": 0.3},
                {"value": 2, "label": "today", "probability": 0.6},
            ],
        },
    ],
    "usage": {
        "input_tokens": 171,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 171,
    },
}

PREWARM_REPLY = {"model": _MODEL, "ok": True, "prompt_tokens": 51, "cached_tokens": 0, "reason": ""}

MODELS_REPLY = {
    "models": [{"name": "jev-latest", "description": f"{_MODEL}: small", "release_date": "2026-11-29"}],
    "object": "list",
    "data": [{"id": "jev-latest", "object": "model", "created": 1795910400, "owned_by": "dicast"}],
}
