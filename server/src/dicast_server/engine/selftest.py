"""Whether tails over a prefix give what one full forward gives: asked of each model before it is served."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import mlx.core as mx

from dicast_server.engine.head import Head
from dicast_server.engine.layers import Attention
from dicast_server.engine.outputs import everywhere
from dicast_server.engine.prefix import Prefix, SharedPrefix

_TAIL = 5
_MOST_TOKENS = 640
_OUTPUTS = 24
_TOLERANCE = 0.05
"""Of the largest value: far above the rounding of half precision, far below a wrong mask or position."""


def tails_agree(head: Head, empty: Prefix, probe: Sequence[int], forward_tokens: int) -> bool:
    """Read a probe in chunks and two tails of unlike length, and compare their ends with whole reads.

    The probe is long enough to leave every sliding window of up to some 600 tokens.
    """
    tokens = list(itertools.islice(itertools.cycle(probe), _length(empty)))
    start, tail = tokens[:-_TAIL], tokens[-_TAIL:]
    prefix = empty
    for place in range(0, len(start), forward_tokens):
        piece = start[place : place + forward_tokens]
        caches = prefix.caches(1)
        head.forward([piece], caches)
        prefix = prefix.after(caches, len(piece))
    shorter = tail[:-2]
    if prefix.shares_forwards:
        both = head.forward([tail, shorter], prefix.caches(2))
        ends = [both[0], both[1]]
    else:
        ends = [head.forward([each], prefix.caches(1))[0] for each in (tail, shorter)]
    wholes = [head.forward([whole], empty.caches(1))[0] for whole in (tokens, tokens[:-2])]
    return all(_close(end, whole) for end, whole in zip(ends, wholes, strict=True))


def outputs_agree(head: Head, empty: Prefix, probe: Sequence[int], forward_tokens: int) -> bool:
    """Read a probe in two pieces and at once, and compare what the trunk gives for each of its tokens."""
    tokens = list(itertools.islice(itertools.cycle(probe), min(_OUTPUTS, forward_tokens)))
    start, rest = tokens[: len(tokens) // 2], tokens[len(tokens) // 2 :]
    caches = empty.caches(1)
    first = head.forward([start], caches, everywhere([start]))
    behind = empty.after(caches, len(start)).caches(1)
    second = head.forward([rest], behind, everywhere([rest]))
    whole = head.forward([tokens], empty.caches(1), everywhere([tokens]))
    return _close(mx.concatenate([first, second]), whole)


def _length(empty: Prefix) -> int:
    windows = [0]
    if isinstance(empty, SharedPrefix):
        windows += [layer.window or 0 for layer in empty.layers if isinstance(layer, Attention)]
    return min(max(windows) + 24, _MOST_TOKENS)


def _close(one: mx.array, other: mx.array) -> bool:
    one, other = one.astype(mx.float32), other.astype(mx.float32)
    apart = mx.max(mx.abs(one - other))
    return bool((apart <= _TOLERANCE * mx.max(mx.abs(other))).item())
