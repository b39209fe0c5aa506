"""What a folder of adapters is found to hold, while others write to it."""

import os
from pathlib import Path

import made_adapters
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dicast_server.adapters import file, scan
from dicast_server.adapters.document import is_name


def written(folder: Path, weights: bytes = b"weights") -> None:
    file.write(folder, made_adapters.description(), weights)


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert scan.look(tmp_path / "none", {}) == scan.Found({})


def test_a_file_in_its_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Not a directory"):
        scan.look(tmp_path / "file", {})


def test_what_has_not_changed_looks_the_same(tmp_path: Path) -> None:
    written(tmp_path / "a")
    found = scan.look(tmp_path, {})
    assert scan.look(tmp_path, found.adapters) == found
    assert list(found.adapters) == ["a"]


@pytest.mark.parametrize("name", [file.DOCUMENT, file.WEIGHTS, file.CONFIG, file.CALIBRATION])
def test_a_change_of_any_file_is_seen(name: str, tmp_path: Path) -> None:
    written(tmp_path / "a")
    before = scan.look(tmp_path, {})
    (tmp_path / "a" / name).write_text("something else, and longer than before" * 200)
    assert scan.look(tmp_path, {}) != before


def test_the_same_written_again_is_another(tmp_path: Path) -> None:
    written(tmp_path / "a")
    before = scan.look(tmp_path, {})
    # As long, and as old.
    old = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "a").iterdir()}
    (tmp_path / "a").rename(tmp_path / ".kept")
    written(tmp_path / "a")
    for path in (tmp_path / "a").iterdir():
        os.utime(path, ns=(old[path.name], old[path.name]))
    assert scan.look(tmp_path, {}) != before


def test_what_another_writes_and_lays_aside_does_not_count(tmp_path: Path) -> None:
    for name in (".a.123.tmp", ".b.old", ".hidden"):
        written(tmp_path / name)
    (tmp_path / "half").mkdir()
    (tmp_path / "file").write_text("")
    assert scan.look(tmp_path, {}) == scan.Found({})


def test_one_that_is_being_replaced_stays_as_it_was(tmp_path: Path) -> None:
    written(tmp_path / "a")
    known = scan.look(tmp_path, {}).adapters
    (tmp_path / "a").rename(tmp_path / ".a.old")
    assert scan.look(tmp_path, known).adapters == known
    written(tmp_path / "b")
    (tmp_path / "b").rename(tmp_path / "a")
    found = scan.look(tmp_path, known).adapters
    assert list(found) == ["a"]
    assert found != known


def test_one_that_cannot_be_looked_into_hides_no_other(tmp_path: Path) -> None:
    written(tmp_path / "a")
    (tmp_path / "loop").symlink_to("loop")
    found = scan.look(tmp_path, {})
    assert list(found.adapters) == ["a"]
    assert found.unreadable == (("loop", "Too many levels of symbolic links"),)
    # What is served stays, for it may be back at the next look.
    known = {"loop": (("dicast.json", 1, 1, 1),)}
    assert scan.look(tmp_path, known).adapters["loop"] == known["loop"]


@given(st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20))
@settings(max_examples=40, deadline=None)
def test_only_names_that_can_be_asked_for_are_found(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    folder = tmp_path_factory.mktemp("adapters")
    try:
        (folder / name).mkdir()
    except OSError:  # "." and "..", and what this file system does not take
        return
    (folder / name / file.DOCUMENT).write_text("{}")
    found = scan.look(folder, {})
    assert list(found.adapters) == ([name] if is_name(name) else [])
    assert found.misnamed == (() if is_name(name) or name.startswith(".") else (name,))
