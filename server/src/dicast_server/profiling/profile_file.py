"""A profile as a file: pinned to the model, the template and the prompts that it was measured with."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dicast_server.decisions.wording import Wording
from dicast_server.profiling.comparison import Comparison
from dicast_server.readouts.profile import OptionStyle, Profile

_SHA256 = "^[0-9a-f]{64}$"


class Pins(BaseModel):
    """What a profile was made for. A profile is used with exactly this, or not at all.

    Attributes:
        model: id of the model, for people.
        weights_hash: of the model, as `LoadedModel.weights_hash`.
        template_hash: of the chat frame and the tokenizer, as `PromptFrame.fingerprint`.
        prompt_version: of the profile's readout.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    model: str
    weights_hash: str = Field(pattern=_SHA256)
    template_hash: str = Field(pattern=_SHA256)
    prompt_version: str


class ProfileFile(BaseModel):
    """The contents of a file.

    Attributes:
        version: of this format.
        name: of the profile.
        made_for: the model, the template and the prompts.
        readout: what reads where a request does not say it.
        settings: of that readout, in its own JSON.
        style: of the letters readout, also where a request asks for letters without a style.
        correct_prior: of the letters readout.
        wording: how values that are not text are written.
        temperature: of all scores; null: none was measured.
        predicate_slope: as `Profile.predicate_slope`.
        predicate_clamp: as `Profile.predicate_clamp`.
        comparison: what was measured when the profile was made; null: nothing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    version: Literal[1] = 1
    name: str = Field(min_length=1, max_length=64)
    made_for: Pins
    readout: str
    settings: dict[str, bool | str] = {}
    style: OptionStyle = OptionStyle.PLAIN
    correct_prior: bool = False
    wording: Wording = Wording.JSON
    temperature: float | None = Field(None, ge=0.05, le=20)
    predicate_slope: float = Field(1.0, gt=0, allow_inf_nan=False)
    predicate_clamp: float = Field(0.0, ge=0, lt=0.5)
    comparison: Comparison | None = None

    @classmethod
    def of(cls, profile: Profile, made_for: Pins, comparison: Comparison | None = None) -> ProfileFile:
        """The file of a profile."""
        return cls(
            name=profile.name,
            made_for=made_for,
            readout=profile.readout,
            settings=dict(profile.settings),
            style=profile.style,
            correct_prior=profile.correct_prior,
            wording=profile.wording,
            temperature=profile.temperature,
            predicate_slope=profile.predicate_slope,
            predicate_clamp=profile.predicate_clamp,
            comparison=comparison,
        )

    @property
    def profile(self) -> Profile:
        """The profile that the file holds."""
        return Profile(
            self.name,
            self.style,
            self.wording,
            self.temperature,
            self.predicate_slope,
            self.predicate_clamp,
            readout=self.readout,
            correct_prior=self.correct_prior,
            settings=tuple(self.settings.items()),
        )

    def mismatch(self, found: Pins) -> str | None:
        """Why the profile does not belong to a model as it was found, in a sentence; None where it does."""
        made = self.made_for
        if made.weights_hash != found.weights_hash:
            return (
                f"the profile {self.name} was made for other weights, {made.model} "
                f"({made.weights_hash[:12]}); these are {found.model} ({found.weights_hash[:12]})"
            )
        if made.template_hash != found.template_hash:
            return (
                f"the profile {self.name} was made for another chat template or tokenizer "
                f"({made.template_hash[:12]}); this model has {found.template_hash[:12]}"
            )
        if made.prompt_version != found.prompt_version:
            return (
                f"the profile {self.name} was made for the prompts of version {made.prompt_version}; "
                f"this server writes {found.prompt_version}"
            )
        return None

    def to_json(self) -> str:
        """The text of the file."""
        return self.model_dump_json(indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> ProfileFile:
        """The contents of a file's text.

        Raises:
            ValueError: with what is wrong and where.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from error

    @classmethod
    def read(cls, path: Path) -> ProfileFile:
        """The contents of a file.

        Raises:
            ValueError: with a sentence that says why there are none.
        """
        try:
            return cls.from_json(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ValueError(f"{path} cannot be read as a profile: {reason}") from error


def shipped() -> list[ProfileFile]:
    """The profiles that come with dicast, by the names of their files."""
    folder = resources.files("dicast_server.profiling") / "shipped"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".json")), key=lambda f: f.name)
    return [ProfileFile.from_json(file.read_text("utf-8")) for file in files]
