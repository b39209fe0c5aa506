"""What other packages register: found by its entry point, or refused in a sentence that names both."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from plugins.installing import installed, write_metadata

from dicast import jsontext
from dicast_server.cli import serve
from dicast_server.decisions.types import FieldError
from dicast_server.service.registry import QUESTION_TYPES, READOUTS, PluginError, Registry

BUILT_IN_READOUTS = {"letters", "direct", "candidates", "pooled"}
BUILT_IN_TYPES = {"predicate", "choice", "score"}


def test_the_built_in_ones_are_registered_like_others() -> None:
    registry = Registry.installed()
    assert set(registry.readouts) == BUILT_IN_READOUTS
    assert set(registry.types) == BUILT_IN_TYPES
    assert registry.extensions() == []
    assert all(registry.extension(name) is None for name in (*BUILT_IN_TYPES, "x_rank"))


def test_what_a_package_brings_is_found(tmp_path: Path) -> None:
    with installed(tmp_path):
        registry = Registry.installed()
    # After dicast's own, whatever was installed first.
    assert list(registry.readouts)[4:] == ["x_digits"]
    assert set(registry.readouts) == {*BUILT_IN_READOUTS, "x_digits"}
    assert list(registry.types)[3:] == registry.extensions() == ["x_likert", "x_rank"]
    rank = registry.extension("x_rank")
    assert rank is not None
    with pytest.raises(FieldError) as caught:
        rank.read(jsontext.Object([("items", ["a", "a"])]))
    assert caught.value.path == ("items", 1)


MODULE = """
class Thing:
    def __init__(self, name, *needs):
        self.name = name
        for need in needs:
            setattr(self, need, None)

class x_class:
    name = "x_class"

x_bare = Thing("x_bare")
x_half = Thing("x_half", "answer", "confidence_formula")
x_other = Thing("x_another", "settings", "open")
letters = Thing("letters", "settings", "open")
numbers = Thing("numbers", "settings", "open")
x_twice = Thing("x_twice", "settings", "open")
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, with a module of things to register."""
    (tmp_path / "a_bad_plugin.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    # Another test's module of the same name.
    monkeypatch.delitem(sys.modules, "a_bad_plugin", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("group", "name", "value", "problem"),
    [
        (READOUTS, "x_digits", "no_such_module:DIGITS", "cannot be loaded: No module named 'no_such_module'"),
        (
            READOUTS,
            "x_digits",
            "a_bad_plugin:x_digits",
            "cannot be loaded: module 'a_bad_plugin' has no attribute 'x_digits'",
        ),
        (READOUTS, "x_other", "a_bad_plugin:x_other", "calls itself 'x_another'"),
        (READOUTS, "x_none", "a_bad_plugin:MODULE", "cannot be loaded"),
        (READOUTS, "numbers", "a_bad_plugin:numbers", "must have a name that begins with x_"),
        (READOUTS, "letters", "a_bad_plugin:letters", "is registered twice"),
        (READOUTS, "x_bare", "a_bad_plugin:x_bare", "is no readout: it has no settings and no open"),
        (READOUTS, "x_class", "a_bad_plugin:x_class", "is a class: register an object of it"),
        (QUESTION_TYPES, "x_half", "a_bad_plugin:x_half", "is no type of question: it has no read"),
    ],
)
def test_a_bad_plugin_is_refused(
    path: Path, capsys: pytest.CaptureFixture[str], *, group: str, name: str, value: str, problem: str
) -> None:
    """A server that starts without it would refuse its questions as if nobody had installed it."""
    write_metadata(path, "bad-plugin", {group: {name: value}})
    with pytest.raises(PluginError) as caught:
        Registry.installed()
    assert str(caught.value).startswith(f"{name!r} of bad-plugin {problem}")
    assert serve.main([]) == 1
    assert capsys.readouterr().err == f"dicast serve: {caught.value}\n"


def test_two_packages_of_one_mind(path: Path) -> None:
    for package in ("first", "second"):
        write_metadata(path, package, {READOUTS: {"x_twice": "a_bad_plugin:x_twice"}})
    with pytest.raises(PluginError, match=r"^'x_twice' of (first|second) is registered twice$"):
        Registry.installed()
