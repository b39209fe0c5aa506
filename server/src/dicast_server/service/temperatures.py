"""Which temperature a question gets and from where, and which certainty a wanted error takes of it."""

from __future__ import annotations

from dataclasses import dataclass

from dicast_server.calibration.document import Calibration
from dicast_server.calibration.kinds import Kind, kind_of
from dicast_server.decisions.answers import Guarantee, Temperature, TemperatureSource
from dicast_server.decisions.questions import Question
from dicast_server.readouts.profile import Profile
from dicast_server.service.calibrated import Calibrated, shown_settings
from dicast_server.service.registry import ChosenReadout


class NoGuaranteeError(Exception):
    """Nothing bounds the error of a question; the message says why and what there is."""


@dataclass(frozen=True, slots=True)
class Temperatures:
    """What divides scores: the request's, the server's, the calibration's, the profile's temperature, or 1.

    `calibrated` was made for this model, template and profile. It is for questions of one way of reading
    alone: its readout, that one's settings and its orders.
    """

    profile: Profile
    server: float | None = None
    calibrated: Calibrated | None = None

    def of(
        self, question: Question, readout: ChosenReadout, orders: int, requested: float | None
    ) -> Temperature:
        """The temperature of a question, with the offset that was fitted with it."""
        if requested is not None:
            return Temperature(requested, TemperatureSource.REQUEST)
        if self.server is not None:
            return Temperature(self.server, TemperatureSource.SERVER)
        calibrated = self.calibrated
        if calibrated is not None and calibrated.covers(readout, orders, self.profile):
            fitted = calibrated.calibration.fitted(kind_of(question.type), question.options)
            if fitted is not None:
                return Temperature(fitted.temperature, TemperatureSource.FITTED, fitted.offset)
        return self.unfitted

    @property
    def unfitted(self) -> Temperature:
        """The temperature where nobody says one and nothing is fitted."""
        if self.profile.temperature is not None:
            return Temperature(self.profile.temperature, TemperatureSource.PROFILE)
        return Temperature(1.0, TemperatureSource.DEFAULT)

    def guarantee(
        self, question: Question, readout: ChosenReadout, orders: int, requested: float | None, wanted: float
    ) -> Guarantee:
        """The certainty under which the calibration bounds the error of such questions.

        Raises:
            NoGuaranteeError: there is no such calibration or threshold.
        """
        calibrated = self.calibrated
        if calibrated is None:
            raise NoGuaranteeError("takes a calibration, and this server has none: see `dicast calibrate`")
        if requested is not None:
            raise NoGuaranteeError("does not go with a temperature: the calibration holds for its own alone")
        if self.server is not None:
            raise NoGuaranteeError(
                "does not go with this server's --temperature: the calibration is not used"
            )
        if not calibrated.covers(readout, orders, self.profile):
            asked = shown_settings(readout, self.profile, orders)
            made = shown_settings(calibrated.readout, self.profile, calibrated.orders)
            raise NoGuaranteeError(
                f"is not known for questions read by {asked}: the calibration is for {made}"
            )
        return _guarantee(calibrated.calibration, kind_of(question.type), wanted)


def wanted_errors(calibration: Calibration, kind: Kind) -> list[float]:
    """The wanted errors that have a threshold for a type, smallest first."""
    return sorted(
        entry.wanted
        for entry in calibration.thresholds
        if (entry.kind, entry.measure) == (kind, "certainty") and entry.threshold is not None
    )


def _guarantee(calibration: Calibration, kind: Kind, wanted: float) -> Guarantee:
    entry = calibration.threshold(wanted, kind)
    if entry is not None and entry.threshold is not None:
        return Guarantee(wanted, entry.threshold)
    if not any(each.kind == kind for each in calibration.thresholds):
        raise NoGuaranteeError(f"is not known for a {kind}: the calibration was made without this type")
    there = ", ".join(f"{each:g}" for each in wanted_errors(calibration, kind)) or "none"
    why = "the calibration does not have it" if entry is None else entry.reason
    raise NoGuaranteeError(f"of {wanted:g} has no threshold for a {kind}: {why}; there are: {there}")
