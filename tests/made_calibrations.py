"""Calibrations made up for the tiny model, each with the numbers that a test wants."""

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tiny_server import REGISTRY, load_tiny

from dicast import jsontext
from dicast_server.calibration.document import Calibration, FittedEntry, Key, KindFigures, ThresholdEntry
from dicast_server.calibration.kinds import KINDS, Kind
from dicast_server.calibration.levels import Scheme
from dicast_server.calibration.verdicts import Verdict
from dicast_server.service.calibrated import Given, Reading
from dicast_server.service.calibrating import CalibrationSource
from dicast_server.service.registry import ChosenReadout

DATE = dt.datetime(2026, 5, 4, 3, 2, 1, tzinfo=dt.UTC)
TEMPERATURES: Mapping[Kind, float] = {"predicate": 2.5, "choice": 3.0, "score": 0.5}
OFFSET = 0.75


@cache
def reading() -> Reading:
    """That of `load_tiny`."""
    return load_tiny().reading


def readout(name: str = "letters", **settings: Any) -> ChosenReadout:
    kind = REGISTRY.readouts[name]
    return ChosenReadout(kind, kind.settings(jsontext.Object(settings.items())))


def key(name: str = "letters", orders: int = 1, questions: str = "q", **settings: Any) -> Key:
    return reading().key(REGISTRY.readouts[name], settings, orders, questions)


def threshold(kind: Kind, wanted: float, least: float | None, reason: str = "") -> ThresholdEntry:
    return ThresholdEntry(
        kind=kind,
        measure="certainty",
        wanted=wanted,
        threshold=least,
        rows=300,
        answered=100,
        errors=1,
        bound=None if least is None else wanted,
        reason=reason,
    )


def calibration(
    of: Key | None = None,
    *,
    temperatures: Mapping[Kind, float] = TEMPERATURES,
    thresholds: Sequence[ThresholdEntry] = (),
    verdicts: Mapping[Kind, Verdict] | None = None,
    scheme: Scheme = Scheme.KIND,
    **fields: Any,
) -> Calibration:
    """A calibration of all types, whose predicates have an offset."""
    said = verdicts or dict.fromkeys(KINDS, Verdict.CALIBRATED)
    entries = [
        FittedEntry(kind=kind, band=None, temperature=value, offset=OFFSET * (kind == "predicate"), rows=100)
        for kind, value in temperatures.items()
    ]
    return Calibration(
        key=of or key(),
        dicast_version="0.1.0",
        base=1.0,
        scheme=scheme,
        table=tuple(entries) if scheme is not Scheme.NONE else (),
        losses={Scheme.NONE: 1.0},
        figures=tuple(
            KindFigures(
                kind=kind,
                rows=100,
                verdict=verdict,
                before={},
                after={},
                prior_log_loss=1.0,
                uniform_log_loss=1.0,
            )
            for kind, verdict in said.items()
        ),
        thresholds=tuple(thresholds),
        **{"date": DATE, **fields},
    )


def given(made: Calibration | None = None, **fields: Any) -> CalibrationSource:
    """A server that is given a calibration."""
    return CalibrationSource(given=Given(Path("given.json"), made or calibration()), **fields)
