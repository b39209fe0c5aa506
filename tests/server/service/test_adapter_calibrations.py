"""A calibration belongs to the base or to one adapter, and to nothing else."""

import json
from pathlib import Path
from typing import Any

import made_calibrations
import pytest
import served_adapters
from served_adapters import Adapted, adapted, write

from dicast.v1 import decision_pb2 as pb
from dicast_server import calibrations
from dicast_server.adapters import file
from dicast_server.calibration import file as calibration_file
from dicast_server.calibration.document import Key
from dicast_server.service.calibrating import CalibrationSource


async def wanted(folder: Path, model: str) -> Key:
    """What a calibration of a model is to be made for, as the server says."""
    async with adapted(folder) as served:
        return Key.model_validate_json((await served.models())[model].calibration.wanted)


async def applied(served: Adapted, model: str) -> set[tuple[float, int]]:
    """The temperatures of a model's answers, and where they came from."""
    sent = served.of(model)
    sent.options.detail = pb.DETAIL_LEVEL_BASIC
    reply = await served.running.decisions.Decide(sent)
    return {(a.diagnostics.temperature, a.diagnostics.temperature_source) for a in reply.answers}


FITTED = {(value, pb.TEMPERATURE_SOURCE_FITTED) for value in made_calibrations.TEMPERATURES.values()}
DEFAULT = {(1.0, pb.TEMPERATURE_SOURCE_DEFAULT)}


async def test_each_has_its_own_and_none_has_the_others(tmp_path: Path) -> None:
    write(tmp_path / "adapters" / "support", 1)
    write(tmp_path / "adapters" / "other", 2)
    for whose, source in (("tiny", "tiny"), ("tiny:support", "tiny:support")):
        data = tmp_path / whose.replace(":", "-")
        key = await wanted(tmp_path / "adapters", source)
        calibrations.save(made_calibrations.calibration(key), data)
        async with adapted(tmp_path / "adapters", calibration=CalibrationSource(folder=data)) as served:
            for model in ("tiny", "tiny:support", "tiny:other"):
                assert await applied(served, model) == (FITTED if model == whose else DEFAULT)
                shown = (await served.models())[model].calibration
                assert shown.source == ("fitted" if model == whose else "default")


async def test_the_one_in_the_adapters_folder_wins(tmp_path: Path) -> None:
    folder = tmp_path / "adapters"
    write(folder / "support")
    key = await wanted(folder, "tiny:support")
    calibrations.save(made_calibrations.calibration(key), tmp_path / "data")
    warmer = {kind: 2 * value for kind, value in made_calibrations.TEMPERATURES.items()}
    own = made_calibrations.calibration(key, temperatures=warmer)
    calibration_file.write(own, folder / "support" / file.CALIBRATION)
    async with adapted(folder, calibration=CalibrationSource(folder=tmp_path / "data")) as served:
        assert {value for value, _ in await applied(served, "tiny:support")} == set(warmer.values())


async def test_one_that_comes_later_is_applied_without_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "adapters"
    write(folder / "support")
    key = await wanted(folder, "tiny:support")
    async with adapted(folder, calibration=CalibrationSource(folder=tmp_path / "data")) as served:
        assert await applied(served, "tiny:support") == DEFAULT
        calibration_file.write(made_calibrations.calibration(key), folder / "support" / file.CALIBRATION)
        await served.adapters.scan()
        assert await applied(served, "tiny:support") == FITTED


@pytest.mark.parametrize("whose", ["tiny", "tiny:other"])
async def test_anothers_in_its_folder_refuses_the_adapter(whose: str, tmp_path: Path) -> None:
    folder = tmp_path / "adapters"
    write(folder / "support", 1)
    write(folder / "other", 2)
    key = await wanted(folder, whose)
    calibration_file.write(made_calibrations.calibration(key), folder / "support" / file.CALIBRATION)
    async with adapted(folder, calibration=CalibrationSource(folder=tmp_path / "data")) as served:
        message = (await served.models())["tiny:support"].status_message
        assert "adapter is" in message
        assert "support/calibration.json was made for something else" in message
        assert str(tmp_path) not in message
        assert (await served.ask("tiny:other"))[0] == "tiny:other"


async def test_one_that_cannot_be_read_refuses_the_adapter(tmp_path: Path) -> None:
    write(tmp_path / "support")
    (tmp_path / "support" / file.CALIBRATION).write_text("{")
    async with adapted(tmp_path, calibration=CalibrationSource(folder=tmp_path / "data")) as served:
        message = (await served.models())["tiny:support"].status_message
        assert "cut off" in message
        assert str(tmp_path) not in message


async def test_none_is_none_for_adapters_too(tmp_path: Path) -> None:
    write(tmp_path / "support")
    key = await wanted(tmp_path, "tiny:support")
    calibration_file.write(made_calibrations.calibration(key), tmp_path / "support" / file.CALIBRATION)
    async with adapted(tmp_path, calibration=CalibrationSource()) as served:
        assert await applied(served, "tiny:support") == DEFAULT


async def test_the_servers_temperature_goes_before(tmp_path: Path) -> None:
    write(tmp_path / "support")
    async with adapted(tmp_path, calibration=CalibrationSource(temperature=3.0)) as served:
        assert {value for value, _ in await applied(served, "tiny:support")} == {3.0}


async def test_the_key_knows_the_adapter_and_files_of_bases_keep_their_names(tmp_path: Path) -> None:
    adapter = write(tmp_path / "support")
    base, own = await wanted(tmp_path, "tiny"), await wanted(tmp_path, "tiny:support")
    assert (base.adapter, own.adapter) == ("", adapter.weights_sha256)
    assert base.digest != own.digest
    assert base.differences(own)
    assert own.differences(base)
    # As it was before keys knew of adapters.
    before: dict[str, Any] = json.loads(base.model_dump_json(exclude={"adapter"}))
    assert Key.model_validate(before) == base
    assert served_adapters.base().reading.adapter == ""
