"""Reads the means of a trunk's outputs over spans of prompts that continue a prefix."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from dicast_server.decisions.passes import Pass, Scores
from dicast_server.engine.outputs import Outputs, everywhere, means
from dicast_server.engine.prefix import Prefix
from dicast_server.engine.progress import Result, Turns
from dicast_server.engine.tails import Receive, Tails


def read_means(
    tails: Tails[Result], prefix: Prefix, passes: Sequence[Pass], isolated: bool, receive: Receive
) -> Turns[Result, None]:
    """Read the spans of passes side by side; the prefix has its own outputs."""
    rows = [pass_.tokens[prefix.length :] for pass_ in passes]
    tally = tails.progress.tally
    for group in tails.groups(prefix, [len(row) for row in rows], isolated):
        first = tally.forwards
        # A row longer than a forward is alone: all but its last piece become part of a prefix of its own.
        read = tails.but_last(max(len(rows[place]) for place in group))
        longer = yield from tails.extend(prefix, rows[group[0]][:read])
        ends = [rows[place][read:] for place in group]
        picked, _ = yield from tails.forward(ends, longer, everywhere(ends))
        every = Outputs.of(picked).tokens
        tally.input_tokens += sum(len(rows[place]) for place in group)
        serials = tails.progress.since(first)
        bounds = itertools.pairwise(itertools.accumulate(map(len, ends), initial=0))
        for place, (start, end) in zip(group, bounds, strict=True):
            own = Outputs(every[start:end])
            found = means([*longer.outputs, own], passes[place].spans)
            receive(passes[place], Scores((), 1.0, serials, means=found))
