"""Reads passes behind a prefix, each kind in its own way."""

from __future__ import annotations

from collections.abc import Sequence

from dicast_server.decisions.passes import Pass
from dicast_server.engine.candidates import read_candidates
from dicast_server.engine.pooling import read_means
from dicast_server.engine.prefix import Prefix
from dicast_server.engine.progress import Result, Turns
from dicast_server.engine.tails import Receive, Tails


def longest_begun(pass_: Pass, prefixes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The longest prefix that a pass begins with, and has at least one token more, to read at."""
    length = len(pass_.tokens)
    begun = [each for each in prefixes if len(each) < length and pass_.tokens[: len(each)] == each]
    return max(begun, key=len, default=None)


def read_behind(
    tails: Tails[Result], prefix: Prefix, passes: Sequence[Pass], isolated: bool, receive: Receive
) -> Turns[Result, None]:
    """Read passes that continue a prefix: labels and spans side by side, candidates pass by pass."""
    yield from tails.read(prefix, [pass_ for pass_ in passes if pass_.labels], isolated, receive)
    yield from read_means(tails, prefix, [pass_ for pass_ in passes if pass_.spans], isolated, receive)
    for pass_ in passes:
        if pass_.candidates:
            receive(pass_, (yield from read_candidates(tails, prefix, pass_, isolated)))
