"""The flags of `dicast serve` for adapters."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import grpc
import pytest
import served_adapters
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dicast.v1 import model_service_pb2 as model_pb
from dicast.v1.model_service_pb2_grpc import ModelServiceStub
from dicast_server.adapters import places
from dicast_server.cli import arguments, serve
from dicast_server.config import Settings

PROGRAM = Path(__file__).parents[1] / "tiny_serve.py"
PATIENCE_S = 30


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DICAST_DATA", str(tmp_path / "data"))


class Serving:
    """A process that serves the tiny model."""

    def __init__(self, address: str, channel: grpc.Channel, log: IO[str]) -> None:
        self.address = address
        self._log = log
        self._models = ModelServiceStub(channel)

    def models(self) -> dict[str, int]:
        """The status of each model."""
        listed = self._models.ListModels(model_pb.ListModelsRequest(), timeout=PATIENCE_S)
        return {model.id: model.status for model in listed.models}

    def until(self, said: str) -> None:
        """Wait until the log says it."""
        while said not in (line := self._log.readline()):
            assert line, f"the log never says {said!r}"


@contextmanager
def serving(*flags: str) -> Iterator[Serving]:
    command = [sys.executable, str(PROGRAM), "--grpc-port", "0", "--min-option-mass", "0", *flags]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            address = process.stdout.readline().split()[1]
            with grpc.insecure_channel(address) as channel:
                watch = health_pb2_grpc.HealthStub(channel).Watch(
                    health_pb2.HealthCheckRequest(), timeout=PATIENCE_S
                )
                assert any(reply.status == health_pb2.HealthCheckResponse.SERVING for reply in watch)
                yield Serving(address, channel, process.stderr)
        finally:
            process.kill()


READY = model_pb.Model.STATUS_READY


def test_adapters_are_found_in_the_data_folder_and_added_while_it_serves(tmp_path: Path) -> None:
    folder = places.folder("tiny")
    assert folder == tmp_path / "data" / "adapters" / "tiny"
    served_adapters.write(folder / "support")
    with serving("--adapters-every", "0.05") as server:
        server.until("model tiny:support is ready")
        served_adapters.write(folder / "late", 2)
        server.until("model tiny:late is ready")
        assert server.models() == {"tiny": READY, "tiny:late": READY, "tiny:support": READY}
    with serving("--no-adapters") as server:
        assert server.models() == {"tiny": READY}


def test_another_folder_may_be_named(tmp_path: Path) -> None:
    for flags, expected in ((["--adapters", str(tmp_path)], tmp_path), ([], places.folder("tiny"))):
        settings = arguments.read(Settings, flags)
        assert settings is not None
        assert serve._adapters_folder(settings)("tiny") == expected


def test_the_folders_of_models_with_a_slash_lie_side_by_side(tmp_path: Path) -> None:
    assert places.folder("org/model") == tmp_path / "data" / "adapters" / "org--model"


def test_an_interval_must_be_positive(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve.main(["--adapters-every", "0"]) == 2
    assert "adapters" in capsys.readouterr().err
