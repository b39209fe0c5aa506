"""`dicast serve` around the tiny model, as a program. A forward of a "~" says so and waits for a word."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
from tiny_server import Forwards, load_tiny

from dicast_server.cli import serve
from dicast_server.service import loading
from dicast_server.service.loading import Served


class Waits(Forwards):
    """Prints `held` at a forward of the token, then reads a line: `go`, or `die` to end the engine."""

    token = -1

    @property
    def runs_on(self) -> str:
        return str(self.head.runs_on)

    def forward(
        self,
        rows: Sequence[Sequence[int]],
        caches: Sequence[Any],
        at: Sequence[tuple[int, int]] | None = None,
    ) -> mx.array:
        if any(self.token in row for row in rows):
            print("held", flush=True)
            if sys.stdin.readline() == "die\n":
                raise SystemExit("told to die")
        return super().forward(rows, caches, at)


def load(source: str, cache: Path, **settings: Any) -> Served:
    served = load_tiny()
    head = Waits(served.reader.head)
    (head.token,) = set(served.model.frame.encode("~")) - set(served.model.frame.encode(""))
    served.reader.head = head  # type: ignore[assignment]
    return served


if __name__ == "__main__":
    loading.load_served = load
    sys.exit(serve.main(["--no-adapter", *sys.argv[1:]]))
