"""Reads whole continuations of a prompt: the prompt once, then the candidates as rows behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dicast_server.decisions.passes import Pass, Scores
from dicast_server.engine.prefix import Prefix
from dicast_server.engine.progress import Result, Turns
from dicast_server.engine.tails import Tails
from dicast_server.engine.trie import Trie


def read_candidates(
    tails: Tails[Result], prefix: Prefix, pass_: Pass, isolated: bool
) -> Turns[Result, Scores]:
    """Score the candidates of a pass that continues a prefix; `isolated` runs one row a forward.

    The prompt becomes a prefix of its own, which ends with the request; the first tokens are read at its
    end, and further ones in rows over it.
    """
    trie = Trie.of(pass_.candidates)
    tally = tails.progress.tally
    begun = tally.forwards
    tail = pass_.tokens[prefix.length :]
    read = tails.but_last(len(tail))
    prompt = yield from tails.extend(prefix, tail[:read])
    end, caches = yield from tails.forward([tail[read:]], prompt)
    (first,) = tails.head.log_probabilities(end, [trie.first])
    further: dict[int, float] = {}
    if trie.rows:
        prompt = prompt.after(caches, len(tail) - read)
        for group in tails.groups(prompt, [len(row) for row in trie.rows], isolated):
            further |= yield from _read_rows(tails, prompt, trie, group)
    tally.input_tokens += len(tail) + sum(len(row) for row in trie.rows)
    values = trie.sums(first, [further[place] for place in range(len(trie.reads))])
    return Scores(values, _share(values), tails.progress.since(begun))


def _read_rows(
    tails: Tails[Result], prompt: Prefix, trie: Trie, group: Sequence[int]
) -> Turns[Result, dict[int, float]]:
    """Run some rows side by side: the log-probabilities of what is read in them, by their places.

    A row longer than a forward is alone, and read piece by piece.
    """
    rows = [trie.rows[row] for row in group]
    # What is read where: (row of the group, position) to places in the trie's reads.
    wanted: dict[tuple[int, int], list[int]] = {}
    for index, row in enumerate(group):
        for place in trie.places(row):
            wanted.setdefault((index, trie.reads[place].position), []).append(place)
    found: dict[int, float] = {}
    longest = max(len(row) for row in rows)
    for start in range(0, longest, tails.forward_tokens):
        end = start + tails.forward_tokens
        here = {spot: places for spot, places in wanted.items() if start <= spot[1] < end}
        at = [(row, position - start) for row, position in here]
        picked, caches = yield from tails.forward([row[start:end] for row in rows], prompt, at)
        tokens = [[trie.reads[place].token for place in places] for places in here.values()]
        for places, values in zip(here.values(), tails.head.log_probabilities(picked, tokens), strict=True):
            found.update(zip(places, values, strict=True))
        if end < longest:
            prompt = prompt.after(caches, end - start)
    return found


def _share(log_probabilities: Sequence[float]) -> float:
    """The sum of the candidates' probabilities; 1 where those that begin one another have more."""
    total = math.fsum(map(math.exp, log_probabilities))
    return min(1.0, total) if math.isfinite(total) else total
