"""Profiles: the prompt style and the published constants that suit a model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from dicast_server.decisions.wording import Wording


class OptionStyle(Enum):
    """How an option's line is written."""

    PLAIN = "plain"
    BRACKET = "bracket"


@dataclass(frozen=True, slots=True)
class Profile:
    """A prompt style with its constants. The prompt version changes whenever the text of a prompt does.

    `temperature` is the profile's published value, None where it has none. A predicate's probability is
    clamped to [clamp, 1 - clamp] and its logit divided by `predicate_slope`.
    """

    name: str
    style: OptionStyle
    wording: Wording
    temperature: float | None = None
    predicate_slope: float = 1.0
    predicate_clamp: float = 0.0
    model_pattern: str = ""

    @property
    def prompt_version(self) -> str:
        """The version of the texts that this profile renders."""
        return f"letters-1-{self.style.value}-{self.wording.value}"

    def matches(self, model_id: str) -> bool:
        """Whether this profile was made for a model of this id."""
        return bool(self.model_pattern) and re.fullmatch(self.model_pattern, model_id) is not None


STOCK = Profile("stock", OptionStyle.PLAIN, Wording.JSON)
"""Any instruction-tuned model: nothing learned, so nothing corrected."""

OPENJEV = Profile(
    "openjev",
    OptionStyle.BRACKET,
    Wording.OPENJEV,
    temperature=0.85,
    predicate_slope=1.829074,
    predicate_clamp=1e-4,
    model_pattern=r"openjev(-[a-z0-9._]+)*",
)
"""The OpenJev weights, with the constants that were measured for them (OpenJev)."""

PROFILES = {profile.name: profile for profile in (STOCK, OPENJEV)}


def profile_for(model_id: str) -> Profile:
    """The first profile that was made for this model, else STOCK."""
    return next((profile for profile in PROFILES.values() if profile.matches(model_id)), STOCK)
