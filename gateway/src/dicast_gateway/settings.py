"""`x_dicast`: our own settings in both dialects, and the names that other servers have for some of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from dicast import jsontext
from dicast.jsontext import Path, show_path
from dicast.v1 import decision_pb2 as pb
from dicast_gateway.conditions import Ask, AskIf, Find, to_conditions
from dicast_gateway.content import Shape
from dicast_gateway.errors import invalid
from dicast_gateway.readouts import QuestionReadout, Readout

FIELD = "x_dicast"

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
_MOST = {"orders": 2**32 - 1, "seed": 2**64 - 1}


def _whole(node: Any) -> Any:
    """Parsed numbers are floats that keep their text: as whole numbers they may be of any size."""
    if node is None:
        return None
    if not isinstance(node, jsontext.Number) or not node.is_integer_text or node < 0:
        raise PydanticCustomError("whole_number", "Input should be a whole number from 0 on")
    return int(node.text)


def _samples(node: Any) -> Any:
    """How many orders to read; "auto" leaves that to the server."""
    return None if node == "auto" else _whole(node)


Whole = Annotated[int | None, BeforeValidator(_whole)]


class Abstain(Shape):
    """Below which certainty a question is refused."""

    min_confidence: float = 0.0
    min_option_mass: float = 0.0
    max_error: float | None = None


class QuestionSettings(Shape):
    """`x_dicast` in a question."""

    readout: QuestionReadout | None = None
    ask_if: AskIf | None = None


class AnyQuestion(Shape):
    """What a question of any type may say: when it is asked, and how it is read."""

    ask_if: AskIf | None = None
    x_dicast: QuestionSettings | None = None

    def readout(self) -> pb.Readout | None:
        """Its own readout as protobuf, None where it has none."""
        ours = self.x_dicast.readout if self.x_dicast is not None else None
        return None if ours is None else ours.message()

    def conditions(self, path: Path, find: Find) -> list[pb.Condition]:
        """Its conditions as protobuf; `path` is the question's.

        Raises:
            GatewayError: they are said twice, differently, or an answer may be two levels of a scale.
        """
        ours = self.x_dicast.ask_if if self.x_dicast is not None else None
        # As protobuf, in which true is not 1.
        claims = [
            (where, to_conditions(said, where, find))
            for where, said in (((*path, FIELD, "ask_if"), ours), ((*path, "ask_if"), self.ask_if))
            if said is not None
        ]
        return _agreed(*claims) or []


class Settings(Shape):
    """`x_dicast` at the top. Null is as good as nothing."""

    readout: Readout | None = None
    orders: Whole = None
    temperature: float | None = None
    detail: Literal["none", "basic", "full"] | None = None
    seed: Whole = None
    cache_salt: str | None = None
    abstain: Abstain | None = None
    isolated: bool | None = None
    mode: Literal["shared", "independent"] | None = None
    ask: Ask | None = None


class Extra(Shape):
    """The block of settings that an overlay of this contract has, as far as they mean something here."""

    calibration_temperature: float | None = None
    seed: Whole = None
    detail: Literal["none", "basic", "full"] | None = None


class WithSettings(Shape):
    """A body that may hold settings, under our name and under those of others."""

    x_dicast: Settings | None = None
    extra: Extra | None = None
    samples: Annotated[int | None, BeforeValidator(_samples)] = None
    seed: Whole = None
    ask: Ask | None = None

    def asked(self) -> list[str]:
        """The questions to ask, none where all are. Raises GatewayError where it is said differently."""
        ours = self.x_dicast.ask if self.x_dicast is not None else None
        return _agreed(((FIELD, "ask"), ours), (("ask",), self.ask)) or []

    def options(self, cache_key: tuple[str, str | None] | None = None) -> pb.DecideOptions | None:
        """The settings as protobuf, None where nothing was said.

        `cache_key` is the dialect's own name for the cache salt, and what it says.

        Raises:
            GatewayError: the same thing is said twice, differently.
        """
        ours, extra = self.x_dicast or Settings(), self.extra or Extra()
        key_name, key = cache_key or ("", None)
        orders = _agreed(((FIELD, "orders"), ours.orders), (("samples",), self.samples))
        seed = _agreed(((FIELD, "seed"), ours.seed), (("seed",), self.seed), (("extra", "seed"), extra.seed))
        for name, value in (("orders", orders), ("seed", seed)):
            if value is not None and value > _MOST[name]:
                raise invalid((FIELD, name), f"is at most {_MOST[name]}", "too_large")
        detail = _agreed(((FIELD, "detail"), ours.detail), (("extra", "detail"), extra.detail))
        options = pb.DecideOptions(
            readout=ours.readout.message() if ours.readout is not None else None,
            orders=orders,
            temperature=_agreed(
                ((FIELD, "temperature"), ours.temperature),
                (("extra", "calibration_temperature"), extra.calibration_temperature),
            ),
            detail=_DETAILS[detail],
            seed=seed,
            cache_salt=_agreed(((FIELD, "cache_salt"), ours.cache_salt), ((key_name,), key)),
            abstain=pb.Abstain(**ours.abstain.model_dump()) if ours.abstain is not None else None,
            isolated=bool(ours.isolated),
            mode=_MODES[ours.mode],
        )
        return options if options.ByteSize() else None


def _agreed(*said: tuple[Path, Any]) -> Any:
    """The one value among several names for a thing; None where none says anything."""
    claims: Sequence[tuple[Path, Any]] = [(path, value) for path, value in said if value is not None]
    if not claims:
        return None
    (first, value), *others = claims
    for path, other in others:
        if other != value:
            raise invalid(path, f"says something else than {show_path(first)}", "conflict")
    return value
