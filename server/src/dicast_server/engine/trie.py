"""Candidates as a trie of tokens: which rows to run behind a prompt, and what to read where."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenRead:
    """The log-probability of `token` behind the token at `position` of row `row`."""

    row: int
    position: int
    token: int


@dataclass(frozen=True, slots=True)
class Trie:
    """What candidates have in common is read once.

    Attributes:
        first: distinct token ids that are read at the end of the prompt.
        rows: token ids to run behind the prompt: the candidates without their last tokens, less those
            that begin another of them.
        reads: what is read in the rows, by row, then by position.
        paths: for each candidate its place in `first`, then those of its further tokens in `reads`.
    """

    first: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]
    reads: tuple[TokenRead, ...]
    paths: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, candidates: Sequence[Sequence[int]]) -> Trie:
        """The trie of candidates of one token at least; they may be alike or begin one another."""
        nodes = _Nodes()
        walks = [nodes.walk(candidate) for candidate in candidates]
        inner = {parent for parent in nodes.parents if parent}
        # A row ends where no token follows that itself has one behind it.
        deepest = sorted(inner - {nodes.parents[node] for node in inner})
        rows: list[tuple[int, ...]] = []
        places: dict[int, tuple[int, int]] = {}
        for node in deepest:
            path = nodes.path(node)
            for position, passed in enumerate(path):
                places.setdefault(passed, (len(rows), position))
            rows.append(tuple(nodes.tokens[passed] for passed in path))
        first = [node for node, parent in nodes.below() if not parent]
        further = sorted((*places[parent], node) for node, parent in nodes.below() if parent)
        place_of = {node: place for place, node in enumerate(first)}
        place_of |= {node: place for place, (_, _, node) in enumerate(further)}
        return cls(
            first=tuple(nodes.tokens[node] for node in first),
            rows=tuple(rows),
            reads=tuple(TokenRead(row, position, nodes.tokens[node]) for row, position, node in further),
            paths=tuple(tuple(place_of[node] for node in walk) for walk in walks),
        )

    def places(self, row: int) -> range:
        """Where in `reads` those of a row are."""
        left = bisect.bisect_left(self.reads, row, key=_row)
        return range(left, bisect.bisect_right(self.reads, row, left, key=_row))

    def sums(self, first: Sequence[float], reads: Sequence[float]) -> tuple[float, ...]:
        """Each candidate's log-probability, of those of `first` and of `reads`; in float64, in its order."""
        return tuple(_sum([first[path[0]], *(reads[place] for place in path[1:])]) for path in self.paths)


class _Nodes:
    """A node is a beginning of candidates, known by its number; 0 is the empty one."""

    def __init__(self) -> None:
        self.parents = [0]
        self.tokens = [-1]
        self._children: dict[tuple[int, int], int] = {}

    def walk(self, candidate: Sequence[int]) -> list[int]:
        """The nodes behind each token of a candidate; makes those that are not there."""
        node, walked = 0, []
        for token in candidate:
            step = (node, token)
            node = self._children.setdefault(step, len(self.parents))
            if node == len(self.parents):
                self.parents.append(step[0])
                self.tokens.append(token)
            walked.append(node)
        return walked

    def below(self) -> list[tuple[int, int]]:
        """All nodes but the empty one, each with its parent."""
        return list(enumerate(self.parents))[1:]

    def path(self, node: int) -> list[int]:
        """The nodes from the first token to this one."""
        path = []
        while node:
            path.append(node)
            node = self.parents[node]
        return path[::-1]


def _row(read: TokenRead) -> int:
    return read.row


def _sum(values: Sequence[float]) -> float:
    # One by one: `sum` rounds otherwise from one version of Python to the next.
    total = 0.0
    for value in values:
        total += value
    return total
