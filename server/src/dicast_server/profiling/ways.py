"""The ways of reading that are compared: a readout with its settings, as a profile holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dicast_server.readouts.profile import OptionStyle, Profile


@dataclass(frozen=True, slots=True)
class Way:
    """A readout, its settings in its own JSON, and in how many orders the options are read."""

    name: str
    readout: str
    settings: Mapping[str, bool | str] = field(default_factory=dict)
    orders: int = 1

    @property
    def holdable(self) -> bool:
        """Whether a profile can make it the default. It cannot ask for more orders: they cost a pass each."""
        return self.orders == 1

    def under(self, profile: Profile) -> Profile:
        """The profile that reads in this way where a request does not say how."""
        if self.readout != "letters":
            return replace(profile, readout=self.readout, settings=tuple(self.settings.items()))
        return replace(
            profile,
            readout=self.readout,
            settings=(),
            style=OptionStyle(self.settings["style"]),
            correct_prior=bool(self.settings.get("correct_prior", False)),
        )


WAYS = (
    Way("letters, plain", "letters", {"style": "plain"}),
    Way("letters, bracket", "letters", {"style": "bracket"}),
    Way("letters, plain, prior corrected", "letters", {"style": "plain", "correct_prior": True}),
    Way("letters, plain, 2 orders", "letters", {"style": "plain"}, orders=2),
    Way("direct", "direct"),
    Way("direct, names hidden", "direct", {"hide_names": True}),
    Way("candidates, one token", "candidates", {"scoring": "single_token"}),
    Way("candidates, sequence", "candidates", {"scoring": "sequence"}),
    Way(
        "candidates, sequence, by length",
        "candidates",
        {"scoring": "sequence", "normalize_length": True},
    ),
    Way(
        "candidates, sequence, prior corrected",
        "candidates",
        {"scoring": "sequence", "correct_prior": True},
    ),
)


def default_way(profile: Profile) -> Way:
    """The way in which a profile reads by itself.

    Raises:
        ValueError: none of those that are compared.
    """
    for way in WAYS:
        if way.holdable and way.under(profile) == profile:
            return way
    raise ValueError(f"the profile {profile.name} reads in none of the ways that are compared")
