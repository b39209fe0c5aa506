"""What was asked, to the letter: the system that a calibration is for."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import JsonValue

from dicast import Candidates, Diagnostics, Direct, Letters, Model, Readout
from dicast_server.calibration.document import Key
from dicast_server.readouts.profile import PROFILES, STOCK, Profile


@dataclass(frozen=True, slots=True)
class Known:
    """What a server in this process knows of its model and a description over gRPC does not say."""

    weights_hash: str
    profile: Profile


@dataclass(frozen=True, slots=True)
class Asking:
    """How questions are asked. A readout of None is the profile's."""

    readout: Readout | None = None
    orders: int = 1


def key_of(model: Model, read: Diagnostics, asking: Asking, known: Known | None, questions: str = "") -> Key:
    """The key of a calibration: of a model's description, and of how it read a first question.

    Without `known`, the server tells the hash of its weights and its constants as what a calibration of it is
    to be made for; an older one does not, and the hash stays empty.
    """
    told = Key.model_validate_json(model.calibration.wanted) if model.calibration.wanted else None
    if known is None and told is not None and asking.readout is None:
        settings = {**told.settings, "orders": asking.orders}
        return told.model_copy(update={"settings": settings, "questions_sha256": questions})
    weights_hash = known.weights_hash if known is not None else told.weights_hash if told is not None else ""
    profile = known.profile if known is not None else _named(model)
    # Slope and clamp are those of letters; a temperature is everybody's.
    letters = read.readout == "letters"
    return Key(
        model=model.id,
        weights_hash=weights_hash,
        quantization=model.quantization,
        template_hash=model.profile.template_hash,
        readout=read.readout,
        settings={**_settings(asking.readout, profile), "orders": asking.orders},
        profile=read.profile,
        constants=(
            profile.temperature if profile.temperature is not None else 1.0,
            profile.predicate_slope if letters else 1.0,
            profile.predicate_clamp if letters else 0.0,
        ),
        prompt_version=read.prompt_version,
        questions_sha256=questions,
    )


def digest_of(parts: Any) -> str:
    """SHA-256 in hexadecimal of a value as sorted JSON."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _settings(readout: Readout | None, profile: Profile) -> dict[str, JsonValue]:
    """All of a readout's settings, with the profile's where the request leaves them to it."""
    match readout:
        case None if profile.readout != "letters":
            return dict(profile.settings)
        case None:
            return {"style": profile.style.value, "correct_prior": profile.correct_prior}
        case Letters(style=style, correct_prior=correct):
            return {
                "style": style or profile.style.value,
                "correct_prior": profile.correct_prior if correct is None else correct,
            }
        case Direct() | Candidates():
            return {name: value for name, value in asdict(readout).items() if name != "texts"}
        case plugin:
            return dict(plugin.settings)


def _named(model: Model) -> Profile:
    if (known := PROFILES.get(model.profile.name)) is not None:
        return known
    temperature = model.calibration.temperature if model.calibration.source == "profile" else None
    return Profile(model.profile.name, STOCK.style, STOCK.wording, temperature)
