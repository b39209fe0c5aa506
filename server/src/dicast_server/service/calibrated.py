"""A calibration that was made for the served model, and which questions it is for."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from dicast import jsontext
from dicast_server.calibration.document import Calibration, Key
from dicast_server.calibration.file import OtherSystem
from dicast_server.calibration.kinds import KINDS
from dicast_server.calibration.verdicts import Verdict
from dicast_server.decisions.types import FieldError
from dicast_server.readouts.letters import NAME as LETTERS
from dicast_server.readouts.letters import LettersSettings
from dicast_server.readouts.profile import Profile
from dicast_server.readouts.readout import Model, ReadoutKind
from dicast_server.readouts.spelled import spelled
from dicast_server.service.registry import ChosenReadout


@dataclass(frozen=True, slots=True)
class Given:
    """A calibration that whoever runs the server named."""

    path: Path
    calibration: Calibration


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A calibration, and the one way of reading that it is for."""

    calibration: Calibration
    readout: ChosenReadout
    orders: int

    def covers(self, readout: ChosenReadout, orders: int, profile: Profile) -> bool:
        """Whether it is for questions that are read so."""
        return (readout.kind.name, orders) == (self.readout.kind.name, self.orders) and (
            _meant(readout.settings, profile) == _meant(self.readout.settings, profile)
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """A model under a profile, as far as a calibration is keyed by it; `adapter` is the hash of its own."""

    model: str
    weights_hash: str
    quantization: str
    template_hash: str
    profile: Profile
    adapter: str = ""

    def key(
        self,
        kind: ReadoutKind[Any],
        given: Mapping[str, JsonValue],
        orders: int = 1,
        questions_sha256: str = "",
    ) -> Key:
        """What a calibration of one way of reading is made for. `given` are settings in the readout's JSON.

        Raises:
            FieldError: a setting is wrong.
        """
        profile = self.profile
        # Slope and clamp are those of letters; the temperature is everybody's.
        letters = kind.name == LETTERS
        # Texts alone decide the version of the prompts, not tokens.
        opened = kind.open("", Model(profile, lambda system, texts: texts), _chosen(kind, given).settings)
        return Key(
            model=self.model,
            weights_hash=self.weights_hash,
            quantization=self.quantization,
            template_hash=self.template_hash,
            readout=kind.name,
            settings=spelled(kind.name, given, profile),
            orders=orders,
            profile=profile.name,
            constants=(
                1.0 if profile.temperature is None else profile.temperature,
                profile.predicate_slope if letters else 1.0,
                profile.predicate_clamp if letters else 0.0,
            ),
            prompt_version=opened.prompt_version,
            adapter=self.adapter,
            questions_sha256=questions_sha256,
        )

    def default_key(self, readouts: Mapping[str, ReadoutKind[Any]], questions_sha256: str = "") -> Key:
        """What a calibration of questions that name no readout is made for."""
        kind = readouts[self.profile.readout]
        return self.key(kind, dict(self.profile.settings), questions_sha256=questions_sha256)

    def match(
        self, calibration: Calibration, path: Path, readouts: Mapping[str, ReadoutKind[Any]]
    ) -> Calibrated:
        """A calibration that was read from a file, where it was made for this model.

        It may be for another way of reading than the default one: then it is for questions that ask for it.

        Raises:
            OtherSystem: it was made for something else.
        """
        made = calibration.key
        kind = readouts.get(made.readout)
        if kind is None:
            there = ", ".join(readouts)
            raise OtherSystem(path, [f"readout is {made.readout} in the file, and there are {there} here"])
        try:
            readout = _chosen(kind, made.settings)
        except FieldError as error:
            where = jsontext.show_path(("settings", *error.path))
            raise OtherSystem(path, [f"{where} {error}"]) from error
        except ValueError as error:
            raise OtherSystem(path, [f"settings of the readout are not read here: {error}"]) from error
        here = self.key(kind, made.settings, made.orders)
        # What the file leaves out is the readout's own choice, which is spelled out here.
        if differences := made.model_copy(update={"settings": here.settings}).differences(here):
            raise OtherSystem(path, differences)
        return Calibrated(calibration, readout, made.orders)


def shown_settings(readout: ChosenReadout, profile: Profile, orders: int) -> str:
    """A way of reading for people."""
    settings = _meant(readout.settings, profile)
    shown = {"settings": settings}
    if dataclasses.is_dataclass(settings):
        shown = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    told = [f"{name} {_word(value)}" for name, value in shown.items() if value != ()]
    return f"{readout.kind.name} ({', '.join([*told, f'orders {orders}'])})"


def in_words(calibration: Calibration) -> str:
    """What a calibration says of each type, in a line."""
    told = []
    for kind in KINDS:
        verdict = calibration.verdict(kind)
        if verdict is None:
            continue
        temperature, offset = calibration.of_kind(kind)
        shifted = f", offset {offset:+.3g}" if offset else ""
        name = "NO SIGNAL" if verdict is Verdict.NO_SIGNAL else verdict.value
        told.append(f"{kind} {name}, temperature {temperature:.3g}{shifted}")
    return f"{calibration.scheme.value}: {'; '.join(told)}"


def without_signal(calibration: Calibration) -> list[str]:
    """The types whose answers say no more than the labels' frequencies: a fit only flattens them."""
    return [kind for kind in KINDS if calibration.verdict(kind) is Verdict.NO_SIGNAL]


def _chosen(kind: ReadoutKind[Any], given: Mapping[str, JsonValue]) -> ChosenReadout:
    body = jsontext.parse(json.dumps(given))
    assert isinstance(body, jsontext.Object)
    return ChosenReadout(kind, kind.settings(body))


def _meant(settings: Any, profile: Profile) -> Any:
    """Settings as they are compared: what letters leave to the profile is the profile's."""
    if not isinstance(settings, LettersSettings):
        return settings
    correct = settings.correct_prior
    return LettersSettings(
        settings.style or profile.style, profile.correct_prior if correct is None else correct
    )


def _word(value: object) -> str:
    return json.dumps(value.value if isinstance(value, Enum) else value, default=repr)
