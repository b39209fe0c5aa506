"""Settings of a readout are one JSON, whoever spells them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dicast_server.readouts.profile import OPENJEV, STOCK, Profile
from dicast_server.readouts.spelled import spelled

CORRECTED = replace(STOCK, correct_prior=True)


@pytest.mark.parametrize(
    ("readout", "given", "profile", "found"),
    [
        ("letters", {}, STOCK, {"style": "plain", "correct_prior": False}),
        (
            "letters",
            {"style": None, "correct_prior": None},
            OPENJEV,
            {"style": "bracket", "correct_prior": False},
        ),
        ("letters", {"correct_prior": False}, CORRECTED, {"style": "plain", "correct_prior": False}),
        ("direct", {}, STOCK, {"hide_names": False}),
        ("direct", {"hide_names": True}, STOCK, {"hide_names": True}),
        (
            "candidates",
            {"scoring": "sequence", "texts": None},
            CORRECTED,
            {"scoring": "sequence", "normalize_length": False, "correct_prior": False},
        ),
        # What nobody knows here is kept, so that it is refused where it is read.
        ("direct", {"new": 1}, STOCK, {"hide_names": False, "new": 1}),
        ("x_digits", {"first": 1, "none": None}, OPENJEV, {"first": 1, "none": None}),
    ],
)
def test_what_is_left_out_is_spelled(
    readout: str, given: dict[str, Any], profile: Profile, found: dict[str, Any]
) -> None:
    assert spelled(readout, given, profile) == found
