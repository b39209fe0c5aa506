"""What the tests of `dicast tune` share: a tiny model, data to learn from, folders of their own."""

from pathlib import Path

import labelled_rows
import pytest
import tiny_models


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny llama."""
    return str(tiny_models.llama_folder(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept where other tests find it."""
    monkeypatch.setenv("DICAST_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DICAST_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A file of questions about front doors."""
    return labelled_rows.write(tmp_path / "Front doors.jsonl", labelled_rows.doors())
