"""What the commands share: errors of one sentence, and the flags that reach a server."""

from __future__ import annotations

import argparse
import os
from typing import NoReturn

from dicast import Client, DicastError, NotFound, ServerError, Unavailable
from dicast._connection import DEFAULT_TARGET, DEFAULT_TIMEOUT_S


class CommandError(Exception):
    """A command ends with one sentence on stderr.

    Attributes:
        code: exit code: 2 for a mistake in the command line or in its input, 1 for any other failure.
    """

    def __init__(self, sentence: str, code: int = 1) -> None:
        super().__init__(sentence)
        self.code = code


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one sentence, and whose --help shows every default."""

    def __init__(self, command: str, description: str, *, epilog: str | None = None) -> None:
        super().__init__(
            prog=f"dicast {command}",
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Raise a CommandError, where argparse would print its usage and exit."""
        raise CommandError(f"{message}; see `{self.prog} --help`", 2)


def add_server_flags(parser: argparse.ArgumentParser) -> None:
    """Add --server, --api-key and --timeout, which `connect` reads."""
    parser.add_argument(
        "--server",
        default=os.environ.get("DICAST_SERVER") or DEFAULT_TARGET,
        metavar="HOST:PORT",
        help=f"gRPC address of the server (environment: DICAST_SERVER; default: {DEFAULT_TARGET})",
    )
    add_key_flag(parser)
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help="how long a call may take (default: %(default)g)",
    )


def add_key_flag(parser: argparse.ArgumentParser) -> None:
    """Add --api-key."""
    parser.add_argument(
        "--api-key",
        default=os.environ.get("DICAST_API_KEY") or None,
        metavar="KEY",
        # No default is shown: it may be a key.
        help="key of a server that has keys (environment, which other users cannot see: DICAST_API_KEY)",
    )


def connect(arguments: argparse.Namespace) -> Client:
    """A client as the flags of `add_server_flags` say."""
    try:
        return Client(arguments.server, api_key=arguments.api_key, timeout_s=arguments.timeout)
    except ValueError as error:
        raise CommandError(str(error), 2) from None


def seconds(text: str) -> float:
    """A positive number of seconds, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value


def describe(error: DicastError, server: str = "") -> str:
    """One sentence about a failed call."""
    if not isinstance(error, ServerError):
        return str(error)
    if isinstance(error, Unavailable) and not error.reason:
        where = f" at {server}" if server else ""
        return f"no dicast server answers{where}: start one with `dicast up`, or name another with --server"
    sentence = error.message
    fields = [f"{v.field}: {v.description}" for v in error.violations if v.description not in sentence]
    if fields and not isinstance(error, NotFound):
        sentence += f" ({'; '.join(fields)})"
    if error.retry_delay_s is not None and "try again" not in sentence:
        sentence += f" (try again in {error.retry_delay_s:g} s)"
    return sentence
