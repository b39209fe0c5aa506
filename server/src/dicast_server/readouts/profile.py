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
    """How a model is read where a request does not say it, with constants that were published or measured.

    `temperature` is None where the profile has none. A predicate's probability is clamped to
    [clamp, 1 - clamp] and its logit divided by `predicate_slope`. `readout` reads with `settings`, which are
    in its own JSON; `style` and `correct_prior` are those of letters, also where a request asks for these
    alone. `correct_prior` subtracts what the options score after a state without content.
    """

    name: str
    style: OptionStyle
    wording: Wording
    temperature: float | None = None
    predicate_slope: float = 1.0
    predicate_clamp: float = 0.0
    model_pattern: str = ""
    readout: str = "letters"
    correct_prior: bool = False
    settings: tuple[tuple[str, bool | str], ...] = ()

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
