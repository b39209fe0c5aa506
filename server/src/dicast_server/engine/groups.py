"""Which tails share a forward: a pure function of their lengths, so that load never changes a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def group_tails(
    lengths: Sequence[int],
    forward_tokens: int,
    cost: Callable[[int], float],
    pads: bool = True,
    fits: Callable[[int, int], bool] = lambda rows, width: True,
) -> list[list[int]]:
    """Cut tails into groups of least cost: the sum over groups of the cost of their tokens.

    A group has `rows * longest` tokens where it is padded, else as many as its tails. One of several rows
    has at most `forward_tokens` and satisfies `fits(rows, longest)`; a tail alone is always a group.
    Returns indices into `lengths`, groups of ascending length; of two plans that cost the same the one
    with the smaller last group.
    """
    order = sorted(range(len(lengths)), key=lambda index: (lengths[index], index))
    costs = [0.0]
    sizes = [0]
    for end in range(1, len(order) + 1):
        longest = lengths[order[end - 1]]
        best_cost, best_size = costs[end - 1] + cost(longest), 1
        together = longest
        for rows in range(2, end + 1):
            together += lengths[order[end - rows]]
            tokens = rows * longest if pads else together
            if tokens > forward_tokens or not fits(rows, longest):
                break
            whole = costs[end - rows] + cost(tokens)
            if whole < best_cost:
                best_cost, best_size = whole, rows
        costs.append(best_cost)
        sizes.append(best_size)
    groups: list[list[int]] = []
    end = len(order)
    while end:
        groups.append(order[end - sizes[end] : end])
        end -= sizes[end]
    return groups[::-1]
