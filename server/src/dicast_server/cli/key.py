"""`dicast key`: makes an API key, and the line of the file by which `dicast serve` knows it."""

from __future__ import annotations

import sys

from dicast.cli.command import CommandError, Parser
from dicast_server.service.keys import digest, is_name, new_key


def main(argv: list[str]) -> int:
    """Print a key to stderr, for its owner, and its line to stdout, for the file."""
    parser = Parser(
        "key",
        "Make an API key.",
        epilog="The line goes to stdout and the key to stderr: `dicast key app >> keys` keeps the one and\n"
        "shows the other, once. `dicast serve --api-keys keys` asks for it.",
    )
    parser.add_argument("name", metavar="NAME", help="whose key it is; also keeps their states apart")
    name = parser.parse_args(argv).name
    if not is_name(name):
        raise CommandError("a name has 1 to 64 letters, digits or signs, and no space or #", 2)
    key = new_key()
    print(f"{name} {digest(key)}", flush=True)
    print(f"the key of {name}, which is shown only now: {key}", file=sys.stderr)
    return 0
