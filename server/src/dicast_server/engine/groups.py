"""Which tails share a forward: a pure function of their lengths, so that load never changes a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence

FORWARD_OVERHEAD = 32
"""The fixed cost of a forward, in tokens."""


def group_tails(
    lengths: Sequence[int],
    forward_tokens: int,
    fits: Callable[[int, int], bool] = lambda rows, width: True,
    overhead: int = FORWARD_OVERHEAD,
) -> list[list[int]]:
    """Cut tails into groups of least cost, the sum over groups of `rows * longest + overhead`.

    A group of several rows carries at most `forward_tokens` tokens, padding included, and satisfies
    `fits(rows, longest)`; a tail alone is always a group. Returns indices into `lengths`, groups of
    ascending length; of two plans that cost the same the one with the smaller last group.
    """
    order = sorted(range(len(lengths)), key=lambda index: (lengths[index], index))
    costs = [0]
    sizes = [0]
    for end in range(1, len(order) + 1):
        longest = lengths[order[end - 1]]
        best_cost, best_size = costs[end - 1] + longest + overhead, 1
        for rows in range(2, end + 1):
            if rows * longest > forward_tokens or not fits(rows, longest):
                break
            cost = costs[end - rows] + rows * longest + overhead
            if cost < best_cost:
                best_cost, best_size = cost, rows
        costs.append(best_cost)
        sizes.append(best_size)
    groups: list[list[int]] = []
    end = len(order)
    while end:
        groups.append(order[end - sizes[end] : end])
        end -= sizes[end]
    return groups[::-1]
