"""Reads a command's settings from its flags and the environment; a mistake is one sentence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError
from pydantic_settings import CliApp, CliSettingsSource, SettingsError

from dicast_server.config import ModelSettings

S = TypeVar("S", bound=ModelSettings)


def read(settings: type[S], argv: list[str]) -> S | None:
    """The settings, or None after the mistake was printed to stderr."""
    program = str(settings.model_config["cli_prog_name"])
    try:
        source = CliSettingsSource[object](settings, cli_exit_on_error=False)
        read = CliApp.run(settings, cli_args=argv, cli_settings_source=source)
    except (SettingsError, ValidationError) as error:
        print(f"{program}: {_sentence(error)}", file=sys.stderr)
        return None
    if (problem := _missing_file(read.model)) is not None:
        print(f"{program}: {problem}", file=sys.stderr)
        return None
    return read


def _missing_file(model: str) -> str | None:
    """A typing error is worth a word at once; everything else about a model shows when it loads."""
    path = Path(model).expanduser()
    looks_like_a_path = path.suffix == ".gguf" or path.is_absolute() or model.startswith((".", "~"))
    return f"there is no file or folder {model}" if looks_like_a_path and not path.exists() else None


def _sentence(error: SettingsError | ValidationError) -> str:
    if isinstance(error, SettingsError):
        return " ".join(str(error).split())
    first = error.errors()[0]
    name = "--" + "-".join(str(part) for part in first["loc"]).replace("_", "-")
    return f"{name}: {first['msg']}"
