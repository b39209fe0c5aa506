"""An adapter that answers in the model's place: all names of the model mean it, and nothing else answers."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import made_calibrations
import pytest
from served_adapters import Adapted, adapted, write
from tiny_server import refusal, serving

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import model_service_pb2 as model_pb
from dicast_server import calibrations
from dicast_server.adapters import file
from dicast_server.calibration import file as calibration_file
from dicast_server.calibration.document import Key
from dicast_server.service.adapter_loading import AdapterPlace
from dicast_server.service.calibrating import CalibrationSource
from dicast_server.service.catalogue import Catalogue
from dicast_server.service.host import Status

READY, REFUSED = model_pb.Model.STATUS_READY, model_pb.Model.STATUS_REFUSED


def place(tmp_path: Path) -> AdapterPlace:
    """An adapter in a folder of another name, as a package has it."""
    write(tmp_path / "shipped", 1)
    return AdapterPlace("decision", tmp_path / "shipped")


async def asked(served: Adapted, model: str = "") -> tuple[str, list[bytes], set[float]]:
    """Who answers, what, and the temperatures."""
    sent = served.of(model)
    sent.options.detail = pb.DETAIL_LEVEL_BASIC
    reply = await served.running.decisions.Decide(sent)
    temperatures = {answer.diagnostics.temperature for answer in reply.answers}
    for answer in reply.answers:
        answer.ClearField("diagnostics")
    return reply.summary.model, [answer.SerializeToString() for answer in reply.answers], temperatures


async def test_every_name_of_the_model_means_it(tmp_path: Path) -> None:
    default, folder = place(tmp_path), tmp_path / "adapters"
    write(folder / "named", 1)
    async with adapted(folder) as served:
        (_, plain, _), (_, beside, _) = await asked(served), await asked(served, "tiny:named")
    async with adapted(folder, default=default) as served:
        for name in ("", "tiny", "jev-latest", "tiny:decision", ":decision"):
            assert (await asked(served, name))[:2] == ("tiny:decision", beside)
        assert (await asked(served, "tiny:named"))[:2] == ("tiny:named", beside)
    assert plain != beside


async def test_it_is_listed_as_the_default_and_the_model_itself_is_not(tmp_path: Path) -> None:
    default = place(tmp_path)
    adapter = file.read(default.folder)
    write(tmp_path / "adapters" / "support", 2)
    async with adapted(tmp_path / "adapters", default=default) as served:
        models = await served.models()
        assert list(models) == ["tiny:decision", "tiny:support"]
        shown = models["tiny:decision"]
        assert list(shown.aliases) == ["tiny", "jev-latest", "jev-preview"]
        assert (shown.status, shown.adapter.name, shown.adapter.base) == (READY, "decision", "tiny")
        assert shown.adapter.hash == adapter.hash == json.loads(shown.calibration.wanted)["adapter"]
        assert shown.profile.name == "adapter"
        for name in ("", "tiny", "tiny:decision"):
            told = await served.running.models.GetModel(model_pb.GetModelRequest(name=name))
            assert told.model.id == "tiny:decision"


async def test_an_alias_may_name_it(tmp_path: Path) -> None:
    async with serving(default=place(tmp_path)) as running:
        catalogue = Catalogue(running.host, "tiny", ("house", "bot=decision"))
        assert catalogue.find("bot") is catalogue.find("house") is catalogue.find("") is running.host.default
        assert catalogue.aliases_of(running.host.default) == ["tiny", "house", "bot"]


async def test_it_is_checked_and_the_model_itself_says_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        async with serving(default=place(tmp_path)) as running:
            assert running.host.status is Status.READY
            assert running.host.default.self_check is not None
            assert running.host.base.self_check is None
    (checked,) = (each.getMessage() for each in caplog.records if "option mass" in each.getMessage())
    assert checked.startswith("model tiny:decision: ")
    assert "model tiny:decision is ready" in caplog.text
    assert "model tiny is" not in caplog.text


async def test_its_name_is_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "adapters" / "decision", 2)
    async with adapted(tmp_path / "adapters", default=place(tmp_path)) as served:
        assert list(await served.models()) == ["tiny:decision"]
        assert (await asked(served, "tiny:decision"))[:2] == (await asked(served))[:2]
        await served.adapters.scan()
    assert caplog.text.count("the adapter in the folder decision is not served") == 1
    async with adapted(tmp_path / "adapters") as served:
        assert list(await served.models()) == ["tiny", "tiny:decision"]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda f: (f / file.WEIGHTS).write_bytes(b"damaged"), "cut off or not its own"),
        (lambda f: (f / file.WEIGHTS).unlink(), "is not whole"),
        (lambda f: (f / file.DOCUMENT).unlink(), "cannot be read"),
        (lambda f: (f / file.CALIBRATION).write_text("{"), "calibration.json"),
    ],
)
async def test_where_it_cannot_be_loaded_nothing_answers(
    damage: Callable[[Path], Any], says: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    default = place(tmp_path)
    damage(default.folder)
    async with serving(default=default, calibration=CalibrationSource(folder=tmp_path / "fits")) as running:
        assert running.host.status is Status.REFUSED
        assert says in running.host.status_message
        assert says in caplog.text
        for name in ("", "tiny", "tiny:decision"):
            sent = service_pb.DecideRequest(model=name, questions=[pb.Question(key="p")])
            code, *_ = await refusal(running.decisions.Decide(sent))
            assert code is grpc.StatusCode.UNAVAILABLE
        listed = await running.models.ListModels(model_pb.ListModelsRequest())
        assert [(model.id, model.status) for model in listed.models] == [("tiny:decision", REFUSED)]


async def test_a_model_that_cannot_be_loaded_is_refused_as_ever(tmp_path: Path) -> None:
    def fail() -> Any:
        raise RuntimeError("no model")

    async with serving(fail, default=place(tmp_path)) as running:
        assert running.host.status is Status.REFUSED
        assert "could not be loaded" in running.host.status_message


async def test_a_fit_of_the_users_goes_before_the_calibration_that_it_brings(tmp_path: Path) -> None:
    default, fits = place(tmp_path), tmp_path / "fits"
    source = CalibrationSource(folder=fits)
    async with adapted(tmp_path / "none", default=default, calibration=source) as served:
        assert (await asked(served))[2] == {1.0}
        wanted = (await served.models())["tiny:decision"].calibration.wanted
    brought = made_calibrations.calibration(Key.model_validate_json(wanted))
    calibration_file.write(brought, default.folder / file.CALIBRATION)
    async with adapted(tmp_path / "none", default=default, calibration=source) as served:
        assert (await asked(served))[2] == set(made_calibrations.TEMPERATURES.values())
    warmer = {kind: 2 * value for kind, value in made_calibrations.TEMPERATURES.items()}
    calibrations.save(made_calibrations.calibration(brought.key, temperatures=warmer), fits)
    async with adapted(tmp_path / "none", default=default, calibration=source) as served:
        assert (await asked(served))[2] == set(warmer.values())


async def test_a_calibration_of_something_else_that_it_brings_is_left_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    default = place(tmp_path)
    calibration_file.write(made_calibrations.calibration(), default.folder / file.CALIBRATION)
    async with serving(default=default, calibration=CalibrationSource(folder=tmp_path / "fits")) as running:
        assert running.host.status is Status.READY
    assert "the calibration that comes with dicast is not applied" in caplog.text
