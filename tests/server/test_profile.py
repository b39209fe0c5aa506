"""`dicast profile` measures, prints and writes; `dicast serve` and `load_served` take what it wrote."""

import json
from pathlib import Path

import pytest
import tiny_models

from dicast_server.cli import serve
from dicast_server.cli.profile import main
from dicast_server.engine.costs import Costs, sizes
from dicast_server.models import ModelRefused
from dicast_server.profiling.profile_file import ProfileFile
from dicast_server.profiling.ways import WAYS
from dicast_server.readouts.profile import STOCK
from dicast_server.service import loading
from dicast_server.service.loading import load_served


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.llama_folder(tmp_path_factory.mktemp("models") / "tiny")


def test_a_measured_table_decides_what_shares_forwards(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "costs.json"
    assert main(["--costs", str(file), str(folder), "--forward-tokens", "16"]) == 0
    shown = capsys.readouterr().out
    assert f"dicast serve --costs {file}" in shown
    assert "log loss" not in shown
    costs = Costs.read(file)
    assert [tokens for tokens, _ in costs.points] == list(sizes(16))
    own = load_served(str(folder), tmp_path, costs=costs)
    default = load_served(str(folder), tmp_path)
    assert own.machinery.costs == costs.hash != default.machinery.costs == Costs.shipped("cpu").hash
    # Prefixes that were read under one table are not taken for those of another.
    assert own.salt != default.salt


@pytest.fixture(scope="module")
def written(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("profiles") / "tiny.json"
    assert main([str(folder), "--write", str(file)]) == 0
    return file


def test_the_ways_are_shown_beside_chance(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("tiny: 72 questions about 24 states")
    assert lines[2].split() == ["chance", "0.36", "1.06"]
    assert [line[:38].strip() for line in lines[3 : 3 + len(WAYS)]] == [way.name for way in WAYS]
    assert any("not taken: a question has candidates" in line for line in lines)
    assert lines[-1].startswith("Best: ")


def test_a_written_profile_is_that_of_its_model(folder: Path, written: Path, tmp_path: Path) -> None:
    file = ProfileFile.read(written)
    assert file.name == file.made_for.model == "tiny"
    assert json.loads(written.read_text("utf-8"))["comparison"]["probe_set_hash"]
    served = load_served(str(folder), tmp_path, profile=file)
    assert served.profile == file.profile
    assert load_served(str(folder), tmp_path).profile.name == "stock"


def test_a_profile_of_other_weights_or_prompts_is_refused(
    folder: Path, written: Path, tmp_path: Path
) -> None:
    file = ProfileFile.read(written)
    other = tiny_models.llama_folder(tmp_path / "other", seed=1)
    with pytest.raises(ModelRefused, match="was made for other weights, tiny"):
        load_served(str(other), tmp_path, profile=file)
    pins = file.made_for.model_copy(update={"prompt_version": "letters-0"})
    with pytest.raises(ModelRefused, match="made for the prompts of version letters-0"):
        load_served(str(folder), tmp_path, profile=file.model_copy(update={"made_for": pins}))


def test_a_shipped_profile_of_the_model_is_used_unless_another_is_asked_for(
    folder: Path, written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ProfileFile.read(written)
    monkeypatch.setattr(loading, "shipped", lambda: [file])
    assert load_served(str(folder), tmp_path).profile == file.profile
    assert load_served(str(folder), tmp_path, profile=STOCK).profile is STOCK


def test_a_file_that_is_no_profile_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "profile.json"
    assert serve.main(["--profile", str(file)]) == 2
    file.write_text("{}", "utf-8")
    assert serve.main(["--profile", str(file)]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == (
        f"dicast serve: --profile: {file} cannot be read as a profile: No such file or directory; "
        "the profiles that have a name are stock, openjev"
    )
    assert second == f"dicast serve: --profile: {file} cannot be read as a profile: name: Field required"


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (["./nowhere"], 2, "there is no file or folder ./nowhere"),
        (["--costs", "x", "./nowhere"], 2, "there is no file or folder ./nowhere"),
        (["--costs", "x", "--threads", "0"], 2, "--threads"),
        (["one", "two"], 2, "two"),
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


@pytest.mark.parametrize("flag", ["--costs", "--write"])
def test_a_place_that_cannot_be_written_is_said_before_anything_is_measured(
    flag: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([flag, str(tmp_path / "no" / "file.json"), str(folder), "--forward-tokens", "8"]) == 1
    shown = capsys.readouterr()
    assert "cannot be written: there is no such folder" in shown.err
    assert shown.out == ""
