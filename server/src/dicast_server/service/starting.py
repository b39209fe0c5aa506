"""From a loaded model to one that answers: its self-check, and its calibration."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dicast_server.calibration.file import OtherSystem
from dicast_server.engine.thread import Engine
from dicast_server.service import failures
from dicast_server.service.calibrating import CalibrationSource, NotCalibratedError
from dicast_server.service.entry import Entry
from dicast_server.service.loading import Served
from dicast_server.service.selfcheck import SelfCheck, check, refusal
from dicast_server.service.temperatures import Temperatures

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Starting:
    """Checks models on an engine; those with less than `least_option_mass` are refused."""

    engine: Engine
    least_option_mass: float

    async def start(self, entry: Entry, ways: Iterable[Served], calibration: CalibrationSource) -> bool:
        """Check and calibrate a model that is loaded: whether it may be served. Else it is refused.

        `ways` are those in which its replies may begin; the first one after which it answers is kept.
        """
        try:
            passed = await self._passed(entry, ways)
        except failures.Failure as failure:
            entry.refuse(f"it cannot answer the questions of its self-check: {failure}")
            return False
        return passed and await self._calibrate(entry, calibration)

    async def _passed(self, entry: Entry, ways: Iterable[Served]) -> bool:
        tried: list[tuple[str, SelfCheck]] = []
        for served in ways:
            entry.plans = planner = served.planner(entry.registry)
            outcome = await check(self.engine, planner)
            opening = served.model.frame.opening
            name = "the template's own opening" if opening is None else opening.name
            log.info("model %s: option mass %.3g behind %s", served.id, outcome.option_mass, name)
            if outcome.reaches(self.least_option_mass):
                entry.served, entry.self_check = served, outcome
                return True
            tried.append((name, outcome))
        entry.self_check = tried[0][1]
        entry.refuse(refusal(tried, self.least_option_mass))
        return False

    async def _calibrate(self, entry: Entry, source: CalibrationSource) -> bool:
        """Find or fit the calibration."""
        served, planner = entry.served, entry.plans
        assert served is not None
        assert planner is not None

        def told(done: int, of: int) -> None:
            entry.status_message = f"calibrating {done} of {of}"

        calibrated, note = None, ""
        try:
            calibrated = await source.find(served.reading, planner, self.engine, told)
        except OtherSystem as error:
            entry.refuse(f"the calibration does not fit: {error}")
            return False
        except NotCalibratedError as error:
            note = f"it is not calibrated: {error}"
            log.warning("model %s is served, but %s", served.id, note)
        entry.status_message = note
        temperatures = Temperatures(served.profile, source.temperature, calibrated)
        entry.plans = replace(planner, temperatures=temperatures)
        return True
