"""Settings to protobuf: the part of `_encode` for options and readouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dicast._checks import assign, json_text, pick, text, texts, unfit
from dicast._options import Abstain, Candidates, Direct, Letters, Options, Plugin, Readout
from dicast.jsontext import Path
from dicast.v1 import decision_pb2 as pb

_DETAILS = {
    None: pb.DETAIL_LEVEL_UNSPECIFIED,
    "none": pb.DETAIL_LEVEL_NONE,
    "basic": pb.DETAIL_LEVEL_BASIC,
    "full": pb.DETAIL_LEVEL_FULL,
}
_MODES = {
    None: pb.MODE_UNSPECIFIED,
    "shared": pb.MODE_SHARED,
    "independent": pb.MODE_INDEPENDENT,
}
_STYLES = {
    None: pb.LettersReadout.STYLE_UNSPECIFIED,
    "plain": pb.LettersReadout.STYLE_PLAIN,
    "bracket": pb.LettersReadout.STYLE_BRACKET,
}
_SCORINGS = {
    None: pb.CandidatesReadout.SCORING_UNSPECIFIED,
    "single_token": pb.CandidatesReadout.SCORING_SINGLE_TOKEN,
    "sequence": pb.CandidatesReadout.SCORING_SEQUENCE,
}


def options(given: Options) -> pb.DecideOptions:
    """Settings of a request, those of plugins apart."""
    message = pb.DecideOptions(
        detail=pick(_DETAILS, given.detail, ("options", "detail")),
        cache_salt=text(given.cache_salt, ("options", "cache_salt")),
        isolated=given.isolated,
        mode=pick(_MODES, given.mode, ("options", "mode")),
    )
    if given.readout is not None:
        message.readout.CopyFrom(readout(given.readout, ("options", "readout")))
    for field in ("orders", "temperature", "seed"):
        if (value := getattr(given, field)) is not None:
            assign(message, field, value, ("options", field))
    if given.abstain is not None:
        if not isinstance(given.abstain, Abstain):
            raise unfit(given.abstain, "Abstain", ("options", "abstain"))
        message.abstain.SetInParent()
        for field in ("min_confidence", "min_option_mass", "max_error"):
            if (value := getattr(given.abstain, field)) is not None:
                assign(message.abstain, field, value, ("options", "abstain", field))
    return message


def readout(given: Readout, path: Path) -> pb.Readout:
    """A way of reading, with its settings."""
    match given:
        case Letters():
            style = pick(_STYLES, given.style, (*path, "style"))
            return pb.Readout(letters=pb.LettersReadout(style=style, correct_prior=given.correct_prior))
        case Direct():
            return pb.Readout(direct=pb.DirectReadout(hide_names=given.hide_names))
        case Candidates():
            return pb.Readout(
                candidates=pb.CandidatesReadout(
                    scoring=pick(_SCORINGS, given.scoring, (*path, "scoring")),
                    normalize_length=given.normalize_length,
                    correct_prior=given.correct_prior,
                    texts=texts(given.texts, (*path, "texts")),
                )
            )
        case Plugin():
            (extension,) = extensions({given.name: given.settings}, path)
            return pb.Readout(extension=extension)
        case _:
            raise unfit(given, "Letters, Direct, Candidates or Plugin", path)


def extensions(given: Any, path: Path) -> list[pb.Extension]:
    """Settings of plugins by name."""
    if not isinstance(given, Mapping):
        raise unfit(given, "a mapping of names to values", path)
    return [
        pb.Extension(name=text(name, path), json=json_text(value, (*path, name)))
        for name, value in given.items()
    ]
