"""The request of the demo, a support ticket, in each of the forms in which it can be asked."""

from __future__ import annotations

import json
from typing import Any

from dicast import Choice, Predicate, Score

STATE = "My last order was charged twice. This is my third mail about it, and no reply so far."

_TEAMS = {
    "billing": "charges, refunds and invoices",
    "shipping": "delivery, tracking and returns",
    "technical": "a product that does not work",
}
_LEVELS = ["whenever there is time", "this week", "today", "within the hour"]
_TEAM, _WAITED, _URGENCY = (
    "Which team should take this message?",
    "Has the customer written about this before?",
    "How soon does this message need an answer?",
)

QUESTIONS: dict[str, Choice | Predicate | Score] = {
    "team": Choice(_TEAM, _TEAMS),
    "waited": Predicate(_WAITED),
    "urgency": Score(_URGENCY, _LEVELS),
}


def systemone_body(model: str) -> dict[str, Any]:
    """The request as POST /v1/systemone takes it."""
    return {
        "model": model,
        "state": STATE,
        "questions": {
            "team": {"type": "choice", "instructions": _TEAM, "criteria": _TEAMS},
            "waited": {"type": "noul", "instructions": _WAITED},
            "urgency": {"type": "score", "instructions": _URGENCY, "criteria": _LEVELS},
        },
    }


def decisions_body(model: str) -> dict[str, Any]:
    """The request as POST /v1/decisions takes it."""
    choices = [{"value": value, "description": text} for value, text in _TEAMS.items()]
    levels = [{"label": label} for label in _LEVELS]
    return {
        "model": model,
        "input": STATE,
        "questions": [
            {"type": "choice", "name": "team", "instructions": _TEAM, "choices": choices},
            {"type": "predicate", "name": "waited", "instructions": _WAITED},
            {"type": "score", "name": "urgency", "instructions": _URGENCY, "levels": levels},
        ],
    }


def curl_lines(address: str) -> list[str]:
    """A command line that asks System One's route again."""
    # Each field on a line of its own; nothing in the request has an apostrophe, so a shell takes it as it is.
    body = json.dumps(systemone_body("jev-latest"), indent=1).splitlines()
    first = f"curl -s http://{address}/v1/systemone -H 'content-type: application/json' -d '{body[0]}"
    return [first, *body[1:-1], f"{body[-1]}'"]


def python_lines(address: str) -> list[str]:
    """A program that asks over gRPC again."""
    teams = ",\n".join(f'                    "{value}": "{text}"' for value, text in _TEAMS.items())
    levels = ", ".join(f'"{label}"' for label in _LEVELS)
    return f"""\
from dicast import Choice, Client, Predicate, Score

with Client("{address}") as client:
    decision = client.decide(
        "{STATE}",
        {{
            "team": Choice(
                "{_TEAM}",
                {{
{teams},
                }},
            ),
            "waited": Predicate("{_WAITED}"),
            "urgency": Score(
                "{_URGENCY}",
                [{levels}],
            ),
        }},
    )
for answer in decision:
    print(answer)\
""".splitlines()
