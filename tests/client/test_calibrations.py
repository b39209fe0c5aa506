"""What a client says of a server's calibration."""

import pytest

import dicast
from dicast import Calibration, TypeCalibration
from dicast._decode_models import model
from dicast.cli.models import calibration_line
from dicast.v1 import model_service_pb2 as pb


def type_(name: str, verdict: str, temperature: float = 1.0) -> TypeCalibration:
    return TypeCalibration(question_type=name, verdict=verdict, rows=100, temperature=temperature)


TYPES = (type_("predicate", "calibrated", 2.314), type_("choice", "no_signal", 9.0), type_("score", ""))


@pytest.mark.parametrize(
    ("calibration", "line"),
    [
        (Calibration(temperature=1.0, source="default"), "temperature 1 (default)"),
        (Calibration(temperature=0.85, source="profile"), "temperature 0.85 (profile)"),
        (
            Calibration(temperature=2.0, source="fitted", scheme="per_type", types=TYPES, digest="d"),
            "predicate calibrated (T 2.31), choice NO SIGNAL (T 9), score not fitted (T 1); d",
        ),
        (
            Calibration(temperature=1.0, source="default", scheme="none", types=TYPES[1:2], digest="d"),
            "temperature 1 (default); choice NO SIGNAL",
        ),
        (
            Calibration(temperature=1.5, source="server", scheme="per_type", types=TYPES, digest="d"),
            "temperature 1.5 (server); the calibration d is not applied",
        ),
    ],
)
def test_a_line_says_what_is_applied_and_what_it_is_worth(calibration: Calibration, line: str) -> None:
    assert calibration_line(calibration) == line


def test_a_calibration_is_decoded_whole() -> None:
    message = pb.Model()
    message.calibration.temperature = 2.0
    message.calibration.source = "fitted"
    message.calibration.scheme = "per_type_and_band"
    message.calibration.digest = "d"
    message.calibration.made_for = "{}"
    message.calibration.wanted = "[]"
    message.calibration.fitted_at.seconds = 86_400
    told = message.calibration.types.add(
        question_type="choice", verdict="calibrated", rows=9, temperature=3.0
    )
    told.offset = 0.5
    told.max_errors.extend([0.05, 0.1])
    told.bands.add(min_options=3, max_options=4, temperature=2.5)
    found = model(message).calibration
    assert found.fitted_at is not None
    assert found.fitted_at.isoformat() == "1970-01-02T00:00:00+00:00"
    assert (found.scheme, found.digest, found.made_for, found.wanted) == (
        "per_type_and_band",
        "d",
        "{}",
        "[]",
    )
    assert found.types == (
        TypeCalibration(
            question_type="choice",
            verdict="calibrated",
            rows=9,
            temperature=3.0,
            offset=0.5,
            bands=(dicast.BandTemperature(min_options=3, max_options=4, temperature=2.5),),
            max_errors=(0.05, 0.1),
        ),
    )
