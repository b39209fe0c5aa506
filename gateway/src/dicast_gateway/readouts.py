"""Readouts in JSON: dicast's own by their names, and those that the server's plugins bring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from dicast.jsontext import Path
from dicast.v1 import decision_pb2 as pb
from dicast_gateway.content import FewFaults, Shape, to_json

PLUGIN = "x_"
"""What the name of everything that a plugin brings begins with."""

_OWN = ("letters", "direct", "candidates")
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


class Letters(Shape):
    """Settings of the letters readout."""

    style: Literal["plain", "bracket"] | None = None
    correct_prior: bool | None = None


class Direct(Shape):
    """Settings of the direct readout."""

    hide_names: bool | None = None


class Candidates(Shape):
    """Settings of the candidates readout."""

    scoring: Literal["single_token", "sequence"] | None = None
    normalize_length: bool | None = None
    correct_prior: bool | None = None

    def message(self) -> pb.CandidatesReadout:
        """As protobuf."""
        return pb.CandidatesReadout(
            scoring=_SCORINGS[self.scoring],
            normalize_length=bool(self.normalize_length),
            correct_prior=bool(self.correct_prior),
        )


class QuestionCandidates(Candidates):
    """Settings of the candidates readout in a question, which may have texts of its own."""

    texts: Annotated[list[str], FewFaults] | None = None

    def message(self) -> pb.CandidatesReadout:
        """As protobuf."""
        message = super().message()
        message.texts.extend(self.texts or ())
        return message


class Readout(Shape):
    """How questions are read: one of dicast's readouts, or one of a plugin under its name."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    letters: Letters | None = None
    direct: Direct | None = None
    candidates: Candidates | None = None

    @model_validator(mode="before")
    @classmethod
    def _exactly_one(cls, node: Any) -> Any:
        """Tells a plugin's name, which is not known here, from a mistake."""
        if not isinstance(node, dict):
            return node
        names = f"{', '.join(_OWN)} or a plugin's, which begins with {PLUGIN}"
        if len(node) != 1:
            raise PydanticCustomError("one_readout", f"Input should name exactly one readout: {names}")
        ((name, settings),) = node.items()
        if name not in _OWN and not name.startswith(PLUGIN):
            raise PydanticCustomError("readout_name", "Input should name a readout: " + names)
        if not isinstance(settings, dict):
            raise PydanticCustomError(
                "readout_settings", "Input should have an object with the readout's settings"
            )
        return node

    def message(self) -> pb.Readout:
        """As protobuf."""
        if self.letters is not None:
            return pb.Readout(
                letters=pb.LettersReadout(
                    style=_STYLES[self.letters.style], correct_prior=self.letters.correct_prior
                )
            )
        if self.direct is not None:
            return pb.Readout(direct=pb.DirectReadout(hide_names=bool(self.direct.hide_names)))
        if self.candidates is not None:
            return pb.Readout(candidates=self.candidates.message())
        ((name, settings),) = (self.model_extra or {}).items()
        return pb.Readout(extension=pb.Extension(name=name, json=to_json(settings)))


class QuestionReadout(Readout):
    """How one question is read."""

    candidates: QuestionCandidates | None = None


def locate(readout: pb.Readout, steps: Sequence[str | int]) -> Path:
    """Where a field of a protobuf readout is in the JSON: a plugin's settings stand under its name."""
    match steps:
        case ["extension", "json", *rest]:
            return (readout.extension.name, *rest)
        case ["extension", *_]:
            return (readout.extension.name,)
        case _:
            return tuple(steps)
