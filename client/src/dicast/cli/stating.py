"""The state of a request on the command line: an argument, a file or standard input."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dicast import Json, jsontext
from dicast.cli.command import CommandError


def add_state_flags(parser: argparse.ArgumentParser) -> None:
    """Add STATE, --state-file and --json-state, which `read_state` reads."""
    parser.add_argument("state", nargs="?", metavar="STATE", help="what to ask about; - or nothing: stdin")
    parser.add_argument("--state-file", type=Path, metavar="FILE", help="read the state from a file")
    parser.add_argument("--json-state", action="store_true", help="the state is JSON, not text")


def read_state(arguments: argparse.Namespace) -> str | Json:
    """The state as the flags say. Raises CommandError where there is none."""
    text = _state_text(arguments)
    if not arguments.json_state:
        return text
    try:
        return Json(text)
    except jsontext.JsonError as error:
        raise CommandError(f"the state: {error}", 2) from None


def _state_text(arguments: argparse.Namespace) -> str:
    try:
        if arguments.state_file is not None:
            if arguments.state is not None:
                raise CommandError("the state is given twice: as an argument and by --state-file", 2)
            return str(arguments.state_file.read_text(encoding="utf-8"))
        if arguments.state not in (None, "-"):
            return str(arguments.state)
        if arguments.state is None and sys.stdin.isatty():
            raise CommandError("a state is needed: an argument, --state-file, or - for stdin", 2)
        return sys.stdin.buffer.read().decode("utf-8")
    except OSError as error:
        raise CommandError(f"--state-file {arguments.state_file}: {error.strerror}", 2) from None
    except UnicodeDecodeError:
        raise CommandError("the state is not UTF-8", 2) from None
