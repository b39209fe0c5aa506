"""When the adapter that comes with dicast answers: for the embedded model, unless it is asked for plain."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import served_adapters

from dicast_server.adapters import file
from dicast_server.calibration import file as calibration_file
from dicast_server.cli import arguments, asking, default_adapter
from dicast_server.config import DEFAULT_MODEL, Settings
from dicast_server.service.adapter_loading import AdapterPlace


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    served_adapters.write(tmp_path / "embedded_adapter")
    monkeypatch.setattr(default_adapter, "FOLDER", tmp_path / "embedded_adapter")
    return tmp_path / "embedded_adapter"


def test_it_is_the_embedded_models_alone(shipped: Path) -> None:
    found = default_adapter.default_adapter(DEFAULT_MODEL, plain=False)
    assert found == AdapterPlace("decision", shipped)
    assert default_adapter.default_adapter(DEFAULT_MODEL, plain=True) is None
    assert default_adapter.default_adapter("/models/smollm2-135m-instruct", plain=False) is None


def test_the_one_that_dicast_comes_with_is_whole_and_small() -> None:
    folder = default_adapter.FOLDER
    adapter = file.read(folder)
    assert adapter.base.model == DEFAULT_MODEL
    assert adapter.head is not None
    assert calibration_file.read(folder / file.CALIBRATION).key.adapter == adapter.hash
    assert "Apache-2.0" in (folder / "MODEL_CARD.md").read_text("utf-8")
    assert sum(path.stat().st_size for path in folder.iterdir()) < 12 << 20


@pytest.mark.parametrize(
    ("flags", "plain"), [([], False), (["--no-adapter"], True), (["--no-adapters"], False)]
)
def test_the_server_has_a_flag_for_the_plain_model(flags: list[str], plain: bool) -> None:
    settings = arguments.read(Settings, flags)
    assert settings is not None
    assert settings.no_adapter is plain


@pytest.mark.parametrize(
    ("named", "plain"),
    [({}, False), ({"no_adapter": True}, True), ({"profile": "stock"}, True)],
)
def test_so_have_commands_that_load_it_here(named: dict[str, Any], plain: bool) -> None:
    flags = {"profile": None, "threads": None, "min_option_mass": 0.0, "no_adapter": False, **named}
    assert asking.loading(SimpleNamespace(**flags)).plain is plain  # type: ignore[arg-type]
