"""Measures what forwards cost on this machine, over a prefix and with the read at the end."""

from __future__ import annotations

import itertools
import platform
import time
from collections.abc import Sequence

import mlx.core as mx

from dicast_server.engine.costs import Costs, sizes
from dicast_server.engine.prefix import Prefix
from dicast_server.engine.reader import Reader

_RUNS = 5
_LEAST_WIDTH = 24
"""Forwards are measured as most tails fill them: rows of at least so many tokens."""


def measure(reader: Reader, probe: Sequence[int], model: str, runs: int = _RUNS) -> Costs:
    """Time forwards of all sizes in turn and keep the fastest of each; `probe` are token ids to read.

    On the thread that loaded the reader.
    """
    tokens = list(itertools.islice(itertools.cycle(probe), reader.forward_tokens))
    prefix = reader.empty
    for _ in range(2):
        caches = prefix.caches(1)
        reader.head.forward([tokens], caches)
        prefix = prefix.after(caches, len(tokens))
    best: dict[int, float] = {}
    for run, size in itertools.product(range(runs + 1), sizes(reader.forward_tokens)):
        took = _forward(reader, prefix, tokens[:size], probe[:2])
        if run:  # the first warms up
            best[size] = min(took, best.get(size, took))
    # What is larger never costs less; where it does, it is noise.
    ascending = itertools.accumulate(best.values(), max)
    points = tuple((size, round(1e3 * cost, 3)) for size, cost in zip(best, ascending, strict=True))
    device = "cpu" if mx.default_device() == mx.cpu else "gpu"
    return Costs(f"{model} on {device}, {platform.system()} {platform.machine()}", points)


def _forward(reader: Reader, prefix: Prefix, tokens: Sequence[int], labels: Sequence[int]) -> float:
    """Seconds of one forward of so many tokens."""
    rows = _rows(len(tokens)) if prefix.shares_forwards else 1
    start = time.perf_counter()
    width = len(tokens) // rows
    cut = [tokens[start : start + width] for start in range(0, len(tokens), width)]
    reader.head.read(reader.head.forward(cut, prefix.caches(rows)), [labels] * rows)
    return time.perf_counter() - start


def _rows(tokens: int) -> int:
    """Into how many rows so many tokens are cut evenly, none of them short."""
    return max(
        rows
        for rows in range(1, tokens + 1)
        if tokens % rows == 0 and (tokens // rows >= _LEAST_WIDTH or rows == 1)
    )
