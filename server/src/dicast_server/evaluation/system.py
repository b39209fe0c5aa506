"""What was asked, to the letter: the system that a calibration is for."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from dicast import Candidates, Diagnostics, Direct, Letters, Model, Readout
from dicast_server.calibration.document import Key
from dicast_server.readouts.letters import NAME as LETTERS
from dicast_server.readouts.profile import PROFILES, STOCK, OptionStyle, Profile
from dicast_server.readouts.spelled import spelled


@dataclass(frozen=True, slots=True)
class Known:
    """What a server in this process knows of its model and a description over gRPC does not say."""

    weights_hash: str
    profile: Profile


@dataclass(frozen=True, slots=True)
class Asking:
    """How questions are asked. A readout of None is the profile's, an empty model the server's default."""

    readout: Readout | None = None
    orders: int = 1
    model: str = ""


def key_of(model: Model, read: Diagnostics, asking: Asking, known: Known | None, questions: str = "") -> Key:
    """The key of a calibration: of a model's description, and of how it read a first question.

    Without `known`, the server tells the hash of its weights and its constants as what a calibration of it is
    to be made for; an older one does not, and the hash stays empty.
    """
    told = Key.model_validate_json(model.calibration.wanted) if model.calibration.wanted else None
    if known is None and told is not None and asking.readout is None:
        return told.model_copy(update={"orders": asking.orders, "questions_sha256": questions})
    weights_hash = known.weights_hash if known is not None else told.weights_hash if told is not None else ""
    profile = known.profile if known is not None else _named(model, told)
    # Slope and clamp are those of letters; a temperature is everybody's.
    letters = read.readout == LETTERS
    return Key(
        model=model.id if model.adapter is None else model.adapter.base,
        weights_hash=weights_hash,
        quantization=model.quantization,
        template_hash=model.profile.template_hash,
        readout=read.readout,
        settings=spelled(read.readout, _given(asking.readout, profile), profile),
        orders=asking.orders,
        profile=read.profile,
        constants=(
            profile.temperature if profile.temperature is not None else 1.0,
            profile.predicate_slope if letters else 1.0,
            profile.predicate_clamp if letters else 0.0,
        ),
        prompt_version=read.prompt_version,
        questions_sha256=questions,
        adapter=model.adapter.hash if model.adapter is not None else "",
    )


def digest_of(parts: Any) -> str:
    """SHA-256 in hexadecimal of a value as sorted JSON."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _given(readout: Readout | None, profile: Profile) -> dict[str, Any]:
    """A readout's settings in its own JSON, those of the profile where none is asked for."""
    match readout:
        case None:
            return dict(profile.settings)
        case Letters() | Direct() | Candidates():
            return asdict(readout)
        case plugin:
            return dict(plugin.settings)


def _named(model: Model, told: Key | None) -> Profile:
    """The profile of a server that runs elsewhere: one with a name, else what can be told of it."""
    if model.adapter is not None:
        return Profile(
            model.profile.name,
            OptionStyle(model.adapter.style),
            STOCK.wording,
            readout=model.adapter.readout,
            correct_prior=json.loads(model.adapter.settings).get("correct_prior") is True,
        )
    if (found := PROFILES.get(model.profile.name)) is not None:
        return found
    temperature = model.calibration.temperature if model.calibration.source == "profile" else None
    unknown = Profile(model.profile.name, STOCK.style, STOCK.wording, temperature)
    if told is None:
        return unknown
    temperature, slope, clamp = told.constants
    if told.readout != LETTERS:
        return replace(unknown, temperature=temperature)
    return replace(
        unknown,
        style=OptionStyle(told.settings.get("style", unknown.style.value)),
        correct_prior=bool(told.settings.get("correct_prior")),
        temperature=temperature,
        predicate_slope=slope,
        predicate_clamp=clamp,
    )
