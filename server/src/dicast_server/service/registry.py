"""What there is to choose from: readouts and types of questions, dicast's own and those of other packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from dicast_server.decisions.types import AnswerType, ExtensionType
from dicast_server.readouts.readout import ReadoutKind

READOUTS = "dicast.readouts"
QUESTION_TYPES = "dicast.question_types"
"""Entry-point groups. Each entry is an object that satisfies the group's interface, under its own name."""

BUILT_IN = "dicast-server"
"""The distribution whose names need not begin with `x_`."""


PREFIX = "x_"
"""What the names of all others begin with."""

_READOUT = ("settings", "open")
_TYPE = ("confidence_formula", "read", "answer")
"""What a plugin must have beside its name: it should fail when it is loaded, not when it is asked."""


class PluginError(Exception):
    """An installed package registers something that cannot be served; the message names both."""


@dataclass(frozen=True, slots=True)
class ChosenReadout:
    """A readout with its settings."""

    kind: ReadoutKind[Any]
    settings: Any


@dataclass(frozen=True, slots=True)
class Registry:
    """Readouts and types of questions by name."""

    readouts: Mapping[str, ReadoutKind[Any]]
    types: Mapping[str, AnswerType]

    @classmethod
    def installed(cls, find: Callable[..., Any] = entry_points) -> Registry:
        """Everything that the installed packages register.

        Raises:
            PluginError: one of them cannot be loaded, or takes a name that is not its own.
        """
        return cls(
            _load(find(group=READOUTS), "readout", _READOUT),
            _load(find(group=QUESTION_TYPES), "type of question", _TYPE),
        )

    def plugin(self, name: str) -> ReadoutKind[Any] | None:
        """A plugin's readout; None where no plugin has it. dicast's own have messages of the contract."""
        return self.readouts.get(name) if name.startswith(PREFIX) else None

    def plugins(self) -> list[str]:
        """The names of the plugins' readouts."""
        return [name for name in self.readouts if name.startswith(PREFIX)]

    def extension(self, name: str) -> ExtensionType | None:
        """The type of a plugin's question, None where no plugin has it."""
        found: Any = self.types.get(name)
        return found if hasattr(found, "read") else None

    def extensions(self) -> list[str]:
        """The names of the plugins' types."""
        return [name for name, type_ in self.types.items() if hasattr(type_, "read")]


def _load(entries: Any, what: str, needs: Sequence[str]) -> dict[str, Any]:
    # By name, so that nothing depends on the order in which packages were installed.
    found: dict[str, Any] = {}
    for entry in sorted(entries, key=lambda entry: (not _is_ours(entry), entry.name)):
        where = f"{entry.name!r} of {entry.dist.name if entry.dist else 'an unknown package'}"
        try:
            thing = entry.load()
        except Exception as error:  # the code of another package
            raise PluginError(f"{where} cannot be loaded: {error}") from error
        if getattr(thing, "name", None) != entry.name:
            raise PluginError(f"{where} calls itself {getattr(thing, 'name', None)!r}")
        if entry.name in found:
            raise PluginError(f"{where} is registered twice")
        if not _is_ours(entry):
            _check_plugin(thing, entry.name, where, what, needs)
        found[entry.name] = thing
    return found


def _check_plugin(thing: Any, name: str, where: str, what: str, needs: Sequence[str]) -> None:
    if not name.startswith("x_"):
        raise PluginError(f"{where} must have a name that begins with x_")
    if isinstance(thing, type):
        raise PluginError(f"{where} is a class: register an object of it")
    if missing := [need for need in needs if not hasattr(thing, need)]:
        raise PluginError(f"{where} is no {what}: it has no {' and no '.join(missing)}")


def _is_ours(entry: EntryPoint) -> bool:
    return entry.dist is not None and entry.dist.name == BUILT_IN
