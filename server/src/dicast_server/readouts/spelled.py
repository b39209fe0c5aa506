"""The settings of a readout with nothing left to be understood: two that mean the same are the same JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dicast_server.readouts import candidates, direct, letters
from dicast_server.readouts.profile import Profile


def spelled(readout: str, given: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    """Settings in the readout's own JSON, as a request or a profile gives them, with what they leave out.

    What a request leaves out of letters is the profile's choice. Texts of candidates belong to one question
    and are no part of it. What a plugin understands by what is left out only the plugin knows: its settings
    stay as they were given.
    """
    own: dict[str, Any]
    match readout:
        case letters.NAME:
            own = {"style": profile.style.value, "correct_prior": profile.correct_prior}
        case direct.NAME:
            own = {"hide_names": False}
        case candidates.NAME:
            own = {"scoring": None, "normalize_length": False, "correct_prior": False}
        case _:
            return dict(given)
    return {name: default if given.get(name) is None else given[name] for name, default in own.items()} | {
        name: value for name, value in given.items() if name not in own and name != "texts"
    }
