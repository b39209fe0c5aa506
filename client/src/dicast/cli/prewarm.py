"""`dicast prewarm`: has a state read and kept, so that questions about it start at once."""

from __future__ import annotations

import json
from dataclasses import asdict

from dicast import DicastError, Prewarmed
from dicast.cli.command import CommandError, Parser, add_server_flags, connect, describe, seconds
from dicast.cli.stating import add_state_flags, read_state


def main(argv: list[str]) -> int:
    """Run `dicast prewarm ARGV`; returns 1 where the state was not kept."""
    parser = Parser("prewarm", "Have a state read and kept before it is asked about.")
    add_state_flags(parser)
    parser.add_argument("--model", default="", help="id or alias (default: the server's default model)")
    parser.add_argument(
        "--ttl", type=seconds, metavar="SECONDS", help="hold it against eviction (default: not held)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_server_flags(parser)
    arguments = parser.parse_args(argv)
    state = read_state(arguments)
    with connect(arguments) as client:
        try:
            kept = client.prewarm(state, model=arguments.model, time_to_live_s=arguments.ttl)
        except DicastError as error:
            raise CommandError(describe(error, arguments.server)) from error
        except (TypeError, ValueError) as error:
            raise CommandError(str(error), 2) from error
    print(json.dumps(asdict(kept), indent=2) if arguments.json else sentence(kept))
    return 0 if kept.kept else 1


def sentence(kept: Prewarmed) -> str:
    """What came of it, for people."""
    read = f"{kept.prefix_tokens} tokens, {kept.cached_tokens} of them known before"
    return f"kept: {read}" if kept.kept else f"not kept: {kept.reason} ({read})"
