"""A server's calibration as the contract's message: what is applied, from where, and what was found."""

from __future__ import annotations

from google.protobuf import timestamp_pb2

from dicast.v1 import model_service_pb2 as pb
from dicast_server.calibration.document import Calibration, Key
from dicast_server.calibration.kinds import KINDS, Kind
from dicast_server.service.temperatures import Temperatures, wanted_errors


def calibration_message(temperatures: Temperatures, wanted: Key | None) -> pb.Calibration:
    """The message; `wanted` is what a calibration is to be made for, once it is known."""
    unfitted = temperatures.unfitted
    message = pb.Calibration(
        temperature=unfitted.value,
        source=unfitted.source.value,
        wanted=wanted.model_dump_json() if wanted is not None else "",
    )
    if temperatures.calibrated is not None:
        calibration = temperatures.calibrated.calibration
        _add(message, calibration)
        if calibration.applies:
            message.source = "fitted"
            root = next((entry for entry in calibration.table if entry.kind is None), None)
            message.temperature = calibration.base if root is None else root.temperature
    if temperatures.server is not None:
        message.source, message.temperature = "server", temperatures.server
    return message


def _add(message: pb.Calibration, calibration: Calibration) -> None:
    message.scheme = calibration.scheme.value
    message.digest = calibration.key.digest
    message.made_for = calibration.key.model_dump_json()
    made = timestamp_pb2.Timestamp()
    made.FromDatetime(calibration.date)
    message.fitted_at.CopyFrom(made)
    rows = {each.kind: each.rows for each in calibration.figures}
    for kind in KINDS:
        if kind not in rows and not any(entry.kind in {kind, None} for entry in calibration.table):
            continue
        temperature, offset = calibration.of_kind(kind)
        verdict = calibration.verdict(kind)
        message.types.append(
            pb.TypeCalibration(
                question_type=kind,
                verdict=verdict.value if verdict is not None else "",
                rows=rows.get(kind, 0),
                temperature=temperature,
                offset=offset,
                bands=_bands(calibration, kind),
                max_errors=wanted_errors(calibration, kind),
            )
        )


def _bands(calibration: Calibration, kind: Kind) -> list[pb.BandTemperature]:
    return [
        pb.BandTemperature(
            min_options=entry.band.low, max_options=entry.band.high, temperature=entry.temperature
        )
        for entry in calibration.table
        if entry.kind == kind and entry.band is not None
    ]
