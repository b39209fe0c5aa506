"""An adapter's folder: whole or refused with a reason, and never half replaced."""

import errno
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_adapters
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dicast_server.adapters import file
from dicast_server.adapters.document import Adapter, Head, TunedFor, is_name
from dicast_server.adapters.errors import AdapterFileError
from dicast_server.adapters.file import Contents
from dicast_server.adapters.mlx_lm_config import config_of

WEIGHTS = b"not read here"


def written(folder: Path, weights: bytes = WEIGHTS, **fields: Any) -> Adapter:
    return file.write(folder, made_adapters.description(**fields), weights)


def edited(folder: Path, **fields: Any) -> None:
    path = folder / file.DOCUMENT
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "adapters" / "support"
    adapter = written(folder)
    assert file.read(folder) == adapter
    assert (folder / file.WEIGHTS).read_bytes() == WEIGHTS
    assert [each.name for each in folder.parent.iterdir()] == ["support"]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / file.DOCUMENT)
    with pytest.raises(AdapterFileError, match="is no file"):
        file.read(tmp_path)


def test_weights_may_be_written_by_a_callable(tmp_path: Path) -> None:
    by_bytes = written(tmp_path / "a")

    def write(path: Path) -> None:
        path.write_bytes(WEIGHTS)

    assert file.write(tmp_path / "b", made_adapters.description(), write) == by_bytes


HEAD = b"not read here either"


def with_head(folder: Path, head: bytes = HEAD, layers: int = 1, **fields: Any) -> Adapter:
    tuned_for = TunedFor(readout="pooled", prompt_version="pooled-v1")
    return file.write(
        folder, made_adapters.description(tuned_for=tuned_for, **fields), WEIGHTS, (layers, head)
    )


def test_a_head_is_written_and_read(tmp_path: Path) -> None:
    adapter = with_head(tmp_path / "support")
    assert file.read_contents(tmp_path / "support") == Contents(adapter, WEIGHTS, HEAD)
    assert adapter.head == Head(layers=1, sha256=hashlib.sha256(HEAD).hexdigest())


def test_another_head_is_another_adapter(tmp_path: Path) -> None:
    plain = written(tmp_path / "plain")
    others = [
        with_head(tmp_path / "a"),
        with_head(tmp_path / "b", b"other"),
        with_head(tmp_path / "c", layers=2),
    ]
    assert plain.hash == plain.weights_sha256
    assert len({adapter.weights_sha256 for adapter in (plain, *others)}) == 1
    assert len({adapter.hash for adapter in (plain, *others)}) == 4


def test_one_without_a_head_is_as_it_was_before_there_were_any(tmp_path: Path) -> None:
    adapter = written(tmp_path / "support")
    assert "head" not in json.loads((tmp_path / "support" / file.DOCUMENT).read_text())
    (tmp_path / "support" / file.HEAD).write_bytes(b"of somebody else")
    assert file.read_contents(tmp_path / "support") == Contents(adapter, WEIGHTS, None)


def test_a_head_needs_the_readout_that_reads_by_it(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="go together"):
        file.write(tmp_path / "support", made_adapters.description(), WEIGHTS, (1, HEAD))
    pooled = TunedFor(readout="pooled", prompt_version="pooled-v1")
    with pytest.raises(ValidationError, match="go together"):
        written(tmp_path / "support", tuned_for=pooled)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda f: (f / file.HEAD).unlink(), "has no head.safetensors"),
        (lambda f: (f / file.HEAD).write_bytes(HEAD[:-1]), "the head.safetensors .* cut off or not its own"),
        (lambda f: edited(f, head=None), "a head and the readout pooled go together"),
        (lambda f: edited(f, head={"layers": 3, "sha256": "3" * 64}), "above 3 layers"),
        (lambda f: edited(f, head={"layers": 0, "sha256": "3" * 64}), "head.layers: "),
    ],
)
def test_a_head_that_is_not_whole_is_refused(
    damage: Callable[[Path], Any], says: str, tmp_path: Path
) -> None:
    with_head(tmp_path / "support")
    damage(tmp_path / "support")
    with pytest.raises(AdapterFileError, match=says):
        file.read(tmp_path / "support")


def damaged(damage: Callable[[Path], Any], folder: Path) -> str:
    written(folder)
    damage(folder)
    with pytest.raises(AdapterFileError) as refused:
        file.read(folder)
    return str(refused.value)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda f: (f / file.WEIGHTS).unlink(), "has no adapters.safetensors"),
        (lambda f: (f / file.CONFIG).unlink(), "has no adapter_config.json"),
        (lambda f: (f / file.DOCUMENT).unlink(), "cannot be read"),
        (lambda f: (f / file.WEIGHTS).write_bytes(WEIGHTS[:-1]), "cut off or not its own"),
        (lambda f: (f / file.DOCUMENT).write_text('{"format": "dicast-ad'), "cut off"),
        (lambda f: (f / file.DOCUMENT).write_text("[]"), "no adapter's"),
        (lambda f: (f / file.DOCUMENT).write_text("{}"), "no adapter's"),
        (lambda f: edited(f, version=2), "has version 2, and this dicast reads 1"),
        (lambda f: edited(f, rank="4"), "rank: "),
        (lambda f: edited(f, surprise=1), "surprise: "),
        (lambda f: edited(f, modules=["b", "a"]), "ascending"),
        (lambda f: edited(f, weights_sha256="3" * 64), "names " + "3" * 64),
    ],
)
def test_what_is_not_whole_is_refused_with_a_reason(
    damage: Callable[[Path], Any], says: str, tmp_path: Path
) -> None:
    message = damaged(damage, tmp_path / "support")
    assert says in message
    assert str(tmp_path) not in message
    assert "\n" not in message


def test_a_full_disk_leaves_the_last_good_adapter(tmp_path: Path) -> None:
    folder = tmp_path / "support"
    before = written(folder)

    def full(path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(AdapterFileError, match="No space left on device"):
        file.write(folder, made_adapters.description(rank=8), full)
    assert file.read(folder) == before
    assert list(tmp_path.iterdir()) == [folder]


def test_whatever_writing_the_weights_raises_leaves_the_last_good_adapter(tmp_path: Path) -> None:
    folder = tmp_path / "support"
    before = written(folder)

    def broken(path: Path) -> None:
        raise RuntimeError("unable to write")

    with pytest.raises(RuntimeError, match="unable to write"):
        file.write(folder, made_adapters.description(rank=8), broken)
    assert file.read(folder) == before
    assert list(tmp_path.iterdir()) == [folder]


def test_a_new_adapter_takes_the_place_of_the_old_one_whole(tmp_path: Path) -> None:
    folder = tmp_path / "support"
    written(folder)
    (folder / file.CALIBRATION).write_text("of the old one")
    after = written(folder, b"others", rank=8)
    assert file.read(folder) == after
    assert sorted(each.name for each in folder.iterdir()) == [file.CONFIG, file.WEIGHTS, file.DOCUMENT]
    assert list(tmp_path.iterdir()) == [folder]


def test_a_write_that_was_ended_between_its_renames_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "support"
    before = written(folder)
    rename = Path.rename

    def ended(self: Path, target: Path) -> Path:
        if target == folder:
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", ended)
        with pytest.raises(AdapterFileError):
            written(folder, b"others")
        assert not folder.exists()  # nor could it be put back

    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(AdapterFileError):
        file.write(folder, made_adapters.description(), full)
    assert file.read(folder) == before
    assert list(tmp_path.iterdir()) == [folder]


def test_a_place_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AdapterFileError, match="cannot be written"):
        written(tmp_path / "file" / "support")


@given(st.text(max_size=70))
def test_names_are_those_that_a_document_takes(name: str) -> None:
    try:
        made_adapters.description(name=name)
        taken = True
    except ValidationError:
        taken = False
    assert taken == is_name(name)
    assert not taken or (name.isascii() and name == name.strip() and "/" not in name and ":" not in name)


def test_mlx_lm_is_told_the_last_blocks_where_they_are_alike() -> None:
    keys = ["mlp.up_proj", "self_attn.q_proj"]
    modules = [f"model.layers.{layer}.{key}" for layer in (29, 28) for key in keys]
    base = made_adapters.base(layers=30)
    config = config_of(made_adapters.description(modules=tuple(sorted(modules)), base=base))
    assert config["num_layers"] == 2
    assert config["lora_parameters"] == {"rank": 4, "scale": 2.0, "dropout": 0.0, "keys": keys}


@pytest.mark.parametrize(
    "modules",
    [
        ("model.layers.0.self_attn.q_proj",),
        ("model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.v_proj"),
        ("lm_head", "model.layers.1.self_attn.q_proj"),
    ],
)
def test_mlx_lm_is_told_full_paths_else(modules: tuple[str, ...]) -> None:
    config = config_of(made_adapters.description(modules=modules))
    assert config["lora_parameters"]["keys"] == list(modules)
