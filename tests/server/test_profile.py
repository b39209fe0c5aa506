"""`dicast profile` writes a table that `dicast serve` takes."""

from pathlib import Path

import pytest
import tiny_models
from mlx.utils import tree_flatten

from dicast_server.cli.profile import main
from dicast_server.engine.costs import Costs, sizes
from dicast_server.service.loading import load_served


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = tiny_models.config("llama", 272)
    weights = dict(tree_flatten(tiny_models.model(settings).parameters()))
    path = tmp_path_factory.mktemp("models") / "tiny"
    return tiny_models.write_folder(path, settings, weights, tiny_models.qwen_like())


def test_a_measured_table_decides_what_shares_forwards(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "costs.json"
    assert main(["--costs", str(file), "--model", str(folder), "--forward-tokens", "16"]) == 0
    assert f"dicast serve --costs {file}" in capsys.readouterr().out
    costs = Costs.read(file)
    assert [tokens for tokens, _ in costs.points] == list(sizes(16))
    own = load_served(str(folder), tmp_path, costs=costs)
    default = load_served(str(folder), tmp_path)
    assert own.machinery.costs == costs.hash != default.machinery.costs == Costs.shipped("cpu").hash
    # Prefixes that were read under one table are not taken for those of another.
    assert own.salt != default.salt


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        ([], 2, "--costs"),
        (["--costs", "x", "--model", "./nowhere"], 2, "there is no file or folder ./nowhere"),
        (["--costs", "x", "--threads", "0"], 2, "--threads"),
    ],
)
def test_a_mistake_is_one_sentence(
    flags: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(flags) == code
    said = capsys.readouterr().err
    assert said.startswith("dicast profile: ")
    assert words in said
    assert said.count("\n") == 1


def test_a_place_that_cannot_be_written_is_said(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--costs", str(tmp_path / "no" / "costs.json"), "--model", str(folder), "--forward-tokens", "8"]
    assert main(flags) == 1
    assert "cannot be written: No such file or directory" in capsys.readouterr().err
