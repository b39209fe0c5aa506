"""Which profile a model is read with: what was asked for, a shipped one that fits, or a common one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dicast import jsontext
from dicast_server.profiling.profile_file import Pins, ProfileFile
from dicast_server.readouts.profile import Profile, profile_for
from dicast_server.readouts.readout import Model, ReadoutKind


@dataclass(frozen=True, slots=True)
class Identity:
    """What a model is known by: its id, its weights, and its template with the tokenizer."""

    model: str
    weights_hash: str
    template_hash: str

    def pins(self, profile: Profile, readouts: Mapping[str, ReadoutKind[Any]]) -> Pins:
        """What a profile is pinned to here.

        Raises:
            ValueError: this server cannot read with it.
        """
        return Pins(
            model=self.model,
            weights_hash=self.weights_hash,
            template_hash=self.template_hash,
            prompt_version=prompt_version(profile, readouts),
        )


def prompt_version(profile: Profile, readouts: Mapping[str, ReadoutKind[Any]]) -> str:
    """The version of the prompts of a profile's readout.

    Raises:
        ValueError: there is no such readout, or it does not take the profile's settings.
    """
    kind = readouts.get(profile.readout)
    if kind is None:
        raise ValueError(
            f"the profile {profile.name} reads with {profile.readout!r}, which is not installed here; "
            f"there are {', '.join(readouts)}"
        )
    try:
        settings = kind.settings(jsontext.Object(profile.settings))
    except ValueError as error:
        raise ValueError(f"the settings of the profile {profile.name} are wrong: {error}") from error
    # Texts alone decide the version, not tokens.
    return kind.open("", Model(profile, lambda system, texts: texts), settings).prompt_version


def profile_of(
    identity: Identity,
    asked: Profile | ProfileFile | None,
    readouts: Mapping[str, ReadoutKind[Any]],
    shipped: Sequence[ProfileFile],
) -> Profile:
    """The profile that a model is read with.

    Without one that was asked for it is the shipped one of these weights and this template, else the first
    that was published for models of this id, else STOCK.

    Raises:
        ValueError: the profile was made for something else, or cannot be used here; a sentence that says why.
    """
    if isinstance(asked, Profile):
        return asked
    file = asked or _fitting(identity, shipped)
    if file is None:
        return profile_for(identity.model)
    profile = file.profile
    if (why := file.mismatch(identity.pins(profile, readouts))) is not None:
        raise ValueError(f"{why}; measure one with `dicast profile`")
    return profile


def _fitting(identity: Identity, shipped: Sequence[ProfileFile]) -> ProfileFile | None:
    wanted = (identity.weights_hash, identity.template_hash)
    fitting = (
        each for each in shipped if (each.made_for.weights_hash, each.made_for.template_hash) == wanted
    )
    return next(fitting, None)
