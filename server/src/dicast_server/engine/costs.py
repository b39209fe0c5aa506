"""What forwards cost by their size: measured on a kind of device, kept as data, never by load."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Costs:
    """A table of measured forwards.

    Attributes:
        device: where it was measured, for people.
        points: (tokens of a forward, padding included; milliseconds), both ascending.
    """

    device: str
    points: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        """Check the table.

        Raises:
            ValueError: it has fewer than two points, or they do not ascend.
        """
        if len(self.points) < 2:
            raise ValueError("a table of costs has two points at least")
        for (fewer, less), (more, greater) in itertools.pairwise(((0, 0.0), *self.points)):
            if not (fewer < more and less <= greater < float("inf")):
                raise ValueError("a table of costs ascends in tokens and in milliseconds")

    def of(self, tokens: int) -> float:
        """Milliseconds of a forward: on the line through the two points beside or below it."""
        pairs = list(itertools.pairwise(self.points))
        (left, low), (right, high) = next((pair for pair in pairs if tokens <= pair[1][0]), pairs[-1])
        return low + (high - low) * (tokens - left) / (right - left)

    @property
    def hash(self) -> str:
        """SHA-256 of the points, in hexadecimal: what decides which tails share a forward."""
        return hashlib.sha256(json.dumps(self.points).encode()).hexdigest()

    def to_json(self) -> str:
        """The table as a file holds it."""
        points = ",\n    ".join(json.dumps(point) for point in self.points)
        return f'{{\n  "device": {json.dumps(self.device)},\n  "forward_ms": [\n    {points}\n  ]\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> Costs:
        """The table of a file.

        Raises:
            ValueError: it is none.
        """
        try:
            table = json.loads(text)
            points = tuple((int(tokens), float(cost)) for tokens, cost in table["forward_ms"])
            device = str(table["device"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError("it is not a table of costs, as `dicast profile` writes them") from error
        return cls(device, points)

    @classmethod
    def read(cls, path: Path) -> Costs:
        """The table that a file holds.

        Raises:
            ValueError: with a sentence that says why there is none.
        """
        try:
            return cls.from_json(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise ValueError(f"{path} cannot be read as a table of costs: {reason}") from error

    @classmethod
    def shipped(cls, device: str) -> Costs:
        """The table that comes with dicast for a device of MLX: "cpu" or "gpu"."""
        data = resources.files("dicast_server.engine") / "cost_tables" / f"{device}.json"
        return cls.from_json(data.read_text("utf-8"))


def sizes(most: int) -> Sequence[int]:
    """The forwards to measure for a table that reaches up to `most` tokens."""
    doubling = itertools.takewhile(lambda tokens: tokens < most, (2**n for n in itertools.count()))
    steps = {tokens * quarters // 4 for tokens in doubling for quarters in (4, 5, 6, 7)}
    return sorted({*(step for step in steps if step < most), most})
