"""Where a server's calibration comes from at its start: a file, labelled questions, or an earlier fit."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dicast_server import calibrations
from dicast_server.calibration import file
from dicast_server.calibration.assessment import assess
from dicast_server.calibration.blocks import Constants
from dicast_server.calibration.dataset import Dataset, DatasetError, read_dataset
from dicast_server.calibration.document import Calibration, Key, calibration_of
from dicast_server.calibration.file import CalibrationFileError, MissingFile, OtherSystem
from dicast_server.calibration.fit import FitRefused, fit
from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.calibration.rows import Collected
from dicast_server.decisions.answers import Answer
from dicast_server.engine.thread import Engine
from dicast_server.readouts.readout import ReadoutKind
from dicast_server.service.calibrated import (
    Calibrated,
    Given,
    Reading,
    in_words,
    shown_settings,
    without_signal,
)
from dicast_server.service.failures import Failure
from dicast_server.service.planning import Planner
from dicast_server.service.requests import AskedQuestion, DecisionRequest
from dicast_server.service.running import run
from dicast_server.service.scoring import score

log = logging.getLogger(__name__)


class NotCalibratedError(Exception):
    """The questions led to no fit, so that what is served stays as it was; the message says why."""


@dataclass(frozen=True, slots=True)
class CalibrationSource:
    """What a server is told about its calibration.

    Attributes:
        temperature: of the server; no calibration is applied beside it.
        given: the calibration to apply.
        questions: a file of labelled questions to fit on.
        folder: where earlier fits are, and where a new one goes; None: nowhere, and none is looked for.
        shipped: what is applied where nothing else is found.
    """

    temperature: float | None = None
    given: Given | None = None
    questions: Path | None = None
    folder: Path | None = None
    shipped: Given | None = None

    async def find(
        self, reading: Reading, planner: Planner, engine: Engine, told: Callable[[int, int], None]
    ) -> Calibrated | None:
        """The calibration of a model; None where there is none. `told` hears of questions done, and of all.

        Raises:
            OtherSystem: the calibration that was named was made for something else.
            NotCalibratedError: there is no fit on the questions.
        """
        readouts = planner.registry.readouts
        if self.given is not None:
            found = reading.match(self.given.calibration, self.given.path, readouts)
            if not found.covers(planner.default, 1, planner.profile):
                log.warning(
                    "the calibration is only for questions that are read by %s",
                    shown_settings(found.readout, planner.profile, found.orders),
                )
            _tell(found.calibration, f"loaded from {self.given.path}")
            return found
        if self.questions is not None:
            if self.temperature is not None:
                log.warning("--calibrate does nothing beside --temperature")
                return None
            calibration = await self._fitted(self.questions, reading, planner, engine, told)
            return Calibrated(calibration, planner.default, 1)
        if self.folder is None:
            return None

        def fits(path: Path, calibration: Calibration) -> bool:
            try:
                found = reading.match(calibration, path, readouts)
            except OtherSystem:
                return False
            return found.covers(planner.default, 1, planner.profile)

        latest = await asyncio.to_thread(calibrations.newest, self.folder, fits, log.warning)
        if latest is None:
            return self._shipped(reading, readouts)
        path, calibration = latest
        _tell(calibration, f"found in {path}")
        return Calibrated(calibration, planner.default, 1)

    def _shipped(self, reading: Reading, readouts: Mapping[str, ReadoutKind[Any]]) -> Calibrated | None:
        """What comes with dicast, where it fits: it was made on another machine."""
        if self.shipped is None:
            return None
        try:
            found = reading.match(self.shipped.calibration, self.shipped.path, readouts)
        except OtherSystem as error:
            log.warning("the calibration that comes with dicast is not applied: %s", error)
            return None
        _tell(found.calibration, "comes with dicast")
        return found

    async def _fitted(
        self,
        path: Path,
        reading: Reading,
        planner: Planner,
        engine: Engine,
        told: Callable[[int, int], None],
    ) -> Calibration:
        try:
            dataset = await asyncio.to_thread(read_dataset, path)
            key = reading.default_key(planner.registry.readouts, dataset.sha256)
            if (saved := self._saved(key)) is not None:
                return saved
            collected = await _read(dataset, planner, engine, told)
            calibration = await asyncio.to_thread(_fit, collected, key)
        except (DatasetError, FitRefused, Failure) as error:
            raise NotCalibratedError(str(error)) from error
        except Exception as error:  # a fault of ours must not keep the model from being served
            log.exception("the calibration failed")
            raise NotCalibratedError("the calibration failed; the server's log says why") from error
        where = "not saved"
        if self.folder is not None:
            try:
                where = f"saved as {calibrations.save(calibration, self.folder)}"
            except CalibrationFileError as error:
                log.warning("the calibration is applied, and not saved: %s", error)
        _tell(calibration, f"fitted on {path.name}, {where}")
        return calibration

    def _saved(self, key: Key) -> Calibration | None:
        """An earlier fit on the same questions."""
        if self.folder is None:
            return None
        path = calibrations.path_in(self.folder, key)
        try:
            calibration = file.read(path, key)
        except MissingFile:
            return None
        except CalibrationFileError as error:
            log.warning("%s; the questions are read again", error)
            return None
        _tell(calibration, f"found in {path}")
        return calibration


async def _read(
    dataset: Dataset, planner: Planner, engine: Engine, told: Callable[[int, int], None]
) -> Collected:
    """The scores of all questions, in the way in which a request that says nothing is read."""
    of = len(dataset.questions)
    told(0, of)

    async def ask(labelled: LabelledQuestion) -> Answer:
        request = DecisionRequest(labelled.state, (AskedQuestion(labelled.question),))
        work = await asyncio.to_thread(planner.plan, request)
        async with aclosing(run(engine, work)) as events:
            async for event in events:
                if isinstance(event, Answer):
                    return event
        raise AssertionError("a request ended without its answer")

    return await score(ask, dataset.questions, told=lambda done: told(done, of))


def _fit(collected: Collected, key: Key) -> Calibration:
    fitted = fit(collected.rows, Constants(*key.constants))
    left = [f"{each.id} (line {each.line}) {each.reason}" for each in collected.left_out]
    now = dt.datetime.now(dt.UTC)
    return calibration_of(fitted, assess(fitted), key, now, version("dicast-server"), notes=left)


def _tell(calibration: Calibration, where: str) -> None:
    log.info("calibration %s %s: %s", calibration.key.digest, where, in_words(calibration))
    if flat := without_signal(calibration):
        log.warning(
            "calibration: NO SIGNAL in questions of type %s: their answers say no more than the labels' "
            "frequencies do, and a fit only makes them flatter",
            ", ".join(flat),
        )
