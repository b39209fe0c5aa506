"""Which readout a request asks for, and with which settings."""

from __future__ import annotations

from typing import Any

from dicast import jsontext
from dicast.v1 import decision_pb2 as pb
from dicast_server.decisions.types import FieldError
from dicast_server.readouts.candidates import CandidatesSettings, Scoring
from dicast_server.readouts.direct import DirectSettings
from dicast_server.readouts.letters import LettersSettings
from dicast_server.readouts.profile import OptionStyle
from dicast_server.service.contents import Faults, read_object
from dicast_server.service.registry import ChosenReadout, Registry

_STYLES = {
    pb.LettersReadout.STYLE_UNSPECIFIED: None,
    pb.LettersReadout.STYLE_PLAIN: OptionStyle.PLAIN,
    pb.LettersReadout.STYLE_BRACKET: OptionStyle.BRACKET,
}
_SCORINGS = {
    pb.CandidatesReadout.SCORING_UNSPECIFIED: None,
    pb.CandidatesReadout.SCORING_SINGLE_TOKEN: Scoring.SINGLE_TOKEN,
    pb.CandidatesReadout.SCORING_SEQUENCE: Scoring.SEQUENCE,
}


def read_readout(readout: pb.Readout, path: str, registry: Registry, faults: Faults) -> ChosenReadout | None:
    """The readout of a message; None where it names none or is at fault."""
    kind = readout.WhichOneof("readout")
    settings: Any = None
    match kind:
        case "letters":
            settings = _letters(readout.letters, path, faults)
        case "direct":
            settings = DirectSettings(readout.direct.hide_names)
        case "candidates":
            settings = _candidates(readout.candidates, path, faults)
        case "extension":
            return _of_a_plugin(readout.extension, f"{path}.extension", registry, faults)
    return None if kind is None or settings is None else ChosenReadout(registry.readouts[kind], settings)


def _letters(letters: pb.LettersReadout, path: str, faults: Faults) -> LettersSettings | None:
    if letters.style not in _STYLES:
        faults.refuse(f"{path}.letters.style", f"{letters.style} is no style")
        return None
    correct = letters.correct_prior if letters.HasField("correct_prior") else None
    return LettersSettings(_STYLES[letters.style], correct)


def _candidates(candidates: pb.CandidatesReadout, path: str, faults: Faults) -> CandidatesSettings | None:
    if candidates.scoring not in _SCORINGS:
        faults.refuse(f"{path}.candidates.scoring", f"{candidates.scoring} is no way of scoring")
        return None
    return CandidatesSettings(
        _SCORINGS[candidates.scoring],
        candidates.normalize_length,
        candidates.correct_prior,
        tuple(candidates.texts),
    )


def _of_a_plugin(
    extension: pb.Extension, path: str, registry: Registry, faults: Faults
) -> ChosenReadout | None:
    kind = registry.plugin(extension.name)
    if kind is None:
        known = ", ".join(registry.plugins()) or "none of a plugin"
        faults.refuse(f"{path}.name", f"{extension.name!r} is no readout of this server; it has {known}")
        return None
    body = read_object(extension.json, f"{path}.json", faults)
    if body is None:
        return None
    try:
        return ChosenReadout(kind, kind.settings(body))
    except FieldError as error:
        faults.refuse(jsontext.show_path((f"{path}.json", *error.path)), str(error))
        return None
