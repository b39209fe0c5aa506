"""The `dicast` command: finds the function behind `dicast NAME` and keeps tracebacks off the screen."""

from __future__ import annotations

import os
import sys
from importlib.metadata import EntryPoint, entry_points, version
from io import TextIOWrapper

from dicast import DicastError
from dicast.cli.command import CommandError, describe

_GROUP = "dicast.commands"
_KNOWN = {
    "calibrate": ("dicast-server", "fit what makes a model's probabilities hold, on labelled questions"),
    "decide": ("dicast", "ask questions about a text or a JSON value"),
    "demo": ("dicast", "start engine and gateway, ask one request three ways, compare, stop"),
    "eval": ("dicast-server", "measure how good a system's probabilities are, or compare two"),
    "gateway": ("dicast-gateway", "serve /v1/systemone and /v1/decisions over HTTP"),
    "key": ("dicast-server", "make an API key"),
    "models": ("dicast", "show the served models"),
    "prewarm": ("dicast", "have a state read and kept before it is asked about"),
    "profile": ("dicast-server", "compare the ways of reading a model, and what forwards cost"),
    "serve": ("dicast-server", "serve a model over gRPC"),
    "tune": ("dicast-server", "learn an adapter, which makes a model better, from labelled questions"),
    "up": ("dicast", "run the engine and the gateway together"),
}


def main(argv: list[str] | None = None) -> int:
    """Run `dicast ARGV`; returns the exit code: 0, 1 for a failure, 2 for a mistake in the command line.

    A failure is one sentence on stderr. With DICAST_DEBUG set in the environment, an error that nobody
    foresaw keeps its traceback.
    """
    arguments = sys.argv[1:] if argv is None else argv
    if isinstance(sys.stdout, TextIOWrapper):
        # An option's name must not fail to print where the terminal lacks its letters.
        sys.stdout.reconfigure(errors="backslashreplace")
    name = ""
    try:
        if not arguments:
            raise CommandError("a command is needed; `dicast --help` lists them", 2)
        if arguments[0] in ("-h", "--help", "help"):
            print(_help())
            code = 0
        elif arguments[0] in ("-V", "--version"):
            print(f"dicast {version('dicast')}")
            code = 0
        else:
            entry = _find(arguments[0])
            name = arguments[0]
            code = entry.load()(arguments[1:])
        sys.stdout.flush()
    except SystemExit as stop:  # argparse, after --help
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        # The reader has gone (`dicast models | head`); Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except CommandError as error:
        code = _complain(name, str(error), error.code)
    except DicastError as error:
        code = _complain(name, describe(error), 1)
    except Exception as error:
        if os.environ.get("DICAST_DEBUG"):
            raise
        code = _complain(name, f"{type(error).__name__}: {error} (DICAST_DEBUG=1 shows where)", 1)
    return code


def _complain(name: str, sentence: str, code: int) -> int:
    print(f"dicast {name}".rstrip() + f": {' '.join(sentence.split())}", file=sys.stderr)
    return code


def _find(name: str) -> EntryPoint:
    for entry in entry_points(group=_GROUP):
        if entry.name == name:
            return entry
    if name in _KNOWN:
        raise CommandError(f"`dicast {name}` needs the package {_KNOWN[name][0]}, which is not installed", 2)
    raise CommandError(f"there is no command {name!r}; `dicast --help` lists them", 2)


def _help() -> str:
    installed = {entry.name: entry for entry in entry_points(group=_GROUP)}
    lines = []
    for name in sorted({*installed, *_KNOWN}):
        package, line = _KNOWN.get(name, ("", ""))
        if name not in installed:
            line += f" (needs the package {package}, which is not installed)"
        elif not line:
            found = installed[name].dist
            line = f"a command of {found.name}" if found else "a command of a plugin"
        lines.append(f"  {name:<9} {line}")
    return "\n".join(
        [
            "usage: dicast COMMAND [ARGUMENTS]",
            "",
            "Typed decisions with calibrated probabilities.",
            "",
            "commands:",
            *lines,
            "",
            "`dicast COMMAND --help` shows the arguments of a command; `dicast --version` the version.",
        ]
    )
