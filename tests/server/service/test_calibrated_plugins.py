"""A calibration of a plugin's readout: made by the command, found by the servers that read so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import labelled_rows
import pytest
from plugins.installing import installed
from tiny_server import load_tiny, serving

from dicast import jsontext
from dicast_server import calibrations
from dicast_server.calibration import file
from dicast_server.cli import calibrate
from dicast_server.readouts.profile import STOCK, Profile
from dicast_server.readouts.readout import ReadoutKind
from dicast_server.service.calibrated import Given
from dicast_server.service.calibrating import CalibrationSource
from dicast_server.service.registry import Registry

DIGITS = replace(STOCK, name="digits", readout="x_digits")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with installed(tmp_path_factory.mktemp("site-packages")):
        yield Registry.installed()


class Renamed:
    """The digits again; its settings are no dataclass, and are called otherwise than in their JSON."""

    name = "x_renamed"

    def __init__(self, digits: ReadoutKind[Any]) -> None:
        self.digits = digits

    def settings(self, body: jsontext.Object) -> tuple[Any, bool]:
        told = [(name, value) for name, value in body.items() if name != "from zero"]
        zero = body.get("from zero") is True
        number = jsontext.Number("0" if zero else "1")
        return self.digits.settings(jsontext.Object([*told, ("first", number)])), zero

    def open(self, state: Any, model: Any, settings: tuple[Any, bool]) -> Any:
        return self.digits.open(state, model, settings[0])


@pytest.fixture
def both(registry: Registry) -> Registry:
    readouts: Mapping[str, Any] = registry.readouts
    return replace(registry, readouts={**readouts, "x_renamed": Renamed(readouts["x_digits"])})


async def calibrated(registry: Registry, profile: Profile, folder: Path, *flags: str) -> Path:
    """The file that `dicast calibrate --server` makes of a server with a profile."""
    data, out = (
        labelled_rows.write(folder / "rows.jsonl", labelled_rows.rows()),
        folder / "calibrations/fit.json",
    )
    out.parent.mkdir()
    async with serving(lambda: load_tiny(profile), registry=registry) as running:
        argv = [str(data), "--server", running.address, "--out", str(out), *flags]
        assert await asyncio.to_thread(calibrate.main, argv) == 0
    return out


async def applies(registry: Registry, profile: Profile, source: CalibrationSource) -> bool:
    async with serving(lambda: load_tiny(profile), registry=registry, calibration=source) as running:
        temperatures = running.host.base.temperatures
    assert temperatures is not None, running.host.status_message
    return temperatures.calibrated is not None


ZERO = replace(DIGITS, name="renamed", readout="x_renamed", settings=(("from zero", True),))


@pytest.mark.parametrize(
    ("profile", "flags", "settings"),
    [
        (DIGITS, [], {}),
        (DIGITS, ["--readout", "x_digits"], {}),
        (DIGITS, ["--readout", 'x_digits:{"first": 1}'], {"first": 1}),
        (ZERO, [], {"from zero": True}),
        (ZERO, ["--readout", 'x_renamed:{"from zero": true}'], {"from zero": True}),
    ],
)
async def test_a_server_with_that_profile_finds_it(
    profile: Profile, flags: list[str], settings: dict[str, Any], both: Registry, tmp_path: Path
) -> None:
    path = await calibrated(both, profile, tmp_path, *flags)
    key = file.read(path).key
    assert (key.readout, key.settings, key.orders) == (profile.readout, settings, 1)
    assert await applies(both, profile, CalibrationSource(folder=path.parent))
    assert await applies(both, profile, CalibrationSource(given=Given(path, file.read(path))))


async def test_other_settings_are_another_way_of_reading(both: Registry, tmp_path: Path) -> None:
    path = await calibrated(both, DIGITS, tmp_path, "--readout", 'x_digits:{"first": 0}')
    assert not await applies(both, DIGITS, CalibrationSource(folder=path.parent))
    assert not await applies(both, STOCK, CalibrationSource(folder=path.parent))


async def test_what_a_server_fits_itself_is_the_same(both: Registry, tmp_path: Path) -> None:
    data = labelled_rows.write(tmp_path / "rows.jsonl", labelled_rows.rows())
    path = await calibrated(both, ZERO, tmp_path)
    made = file.read(path)
    own = CalibrationSource(questions=data, folder=tmp_path / "own")
    assert await applies(both, ZERO, own)
    (saved,) = (tmp_path / "own").iterdir()
    assert file.read(saved).key == made.key
    assert saved == calibrations.path_in(tmp_path / "own", made.key)
