"""The worst misses for programs."""

from __future__ import annotations

import json

import asked
import pytest

from dicast_server.calibration.misses import miss_rows
from dicast_server.calibration.prediction import Prediction


def test_a_miss_says_what_was_expected_and_all_that_was_said() -> None:
    said = [
        Prediction("p", "g1", "predicate", 1, (0.75, 0.25)),
        Prediction("c", "g2", "choice", 2, (0.25, 0.625, 0.125)),
        Prediction("s", "g3", "score", 0, (0.0, 0.0, 1.0)),
        Prediction("right", "g4", "score", 2, (0.0, 0.0, 1.0)),
    ]
    questions = [asked.question(each.id, each.kind, len(each.probabilities), each.label) for each in said]
    found = miss_rows(said, questions)
    assert json.loads(json.dumps(found)) == found
    assert [each["id"] for each in found] == ["s", "c", "p"]
    level, option, predicate = found
    assert (level["type"], level["expected"], level["answered"]) == ("score", 0, 2)
    assert option == {
        "id": "c",
        "line": 3,
        "group": "g2",
        "type": "choice",
        "expected": "team 2",
        "answered": "team 1",
        "probabilities": [
            {"option": "team 0", "probability": 0.25},
            {"option": "team 1", "probability": 0.625},
            {"option": "team 2", "probability": 0.125},
        ],
    }
    assert (predicate["expected"], predicate["answered"]) == (False, True)
    with pytest.raises(ValueError, match="there is no question 's'"):
        miss_rows(said, questions[:2])


def test_twenty_at_most() -> None:
    said = [Prediction(f"r{n}", "g", "predicate", 1, (0.6, 0.4)) for n in range(30)]
    found = miss_rows(said, [asked.question(each.id, "predicate", 2, 1) for each in said])
    assert len(found) == 20
