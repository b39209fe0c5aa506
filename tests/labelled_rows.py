"""Files of labelled questions for tests: a predicate, a choice and a score about each of some states."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dicast_server.calibration.dataset import read_dataset
from dicast_server.calibration.labelled import LabelledQuestion

Row = dict[str, Any]


def rows(states: int = 20) -> list[Row]:
    """Three rows a state, with labels that take turns."""
    found: list[Row] = []
    for number in range(states):
        state: Any = f"Parcel {number} has not moved." if number % 2 else {"parcel": number, "weight": 1.0}
        asked: list[tuple[Row, Any]] = [
            (
                {
                    "type": "noul",
                    "instructions": "Is it late?",
                    "criteria": {"true": "it should be here", "false": "there is time"},
                },
                number % 2 == 0,
            ),
            (
                {
                    "type": "choice",
                    "instructions": "Who should look into it?",
                    "criteria": {"billing": "charges", "shipping": None, "nobody": "it is fine"},
                },
                ("billing", "shipping", "nobody")[number % 3],
            ),
            (
                {"type": "score", "instructions": "How urgent is it?", "criteria": ["not", "a bit", "very"]},
                number % 3,
            ),
        ]
        for place, (question, expected) in enumerate(asked):
            found.append(
                {
                    "id": f"{number}{'abc'[place]}",
                    "group": f"g{number}",
                    "state": state,
                    "question": question,
                    "expected": expected,
                }
            )
    return found


def doors(count: int = 120) -> list[Row]:
    """A predicate a state whose answer is its last letter: what a random model can learn."""
    rng = random.Random(0)
    return [
        {
            "id": str(number),
            "state": f"{rng.randrange(10**6)} {'y' if number % 2 else 'n'}",
            "question": {"type": "noul", "instructions": "y?"},
            "expected": number % 2 == 1,
        }
        for number in range(count)
    ]


def write(path: Path, given: Sequence[Row]) -> Path:
    """A file of rows."""
    path.write_text("".join(json.dumps(row) + "\n" for row in given), "utf-8")
    return path


def read(folder: Path, given: Sequence[Row]) -> tuple[LabelledQuestion, ...]:
    """Rows as they are read from a file."""
    return read_dataset(write(folder / "rows.jsonl", given)).questions
