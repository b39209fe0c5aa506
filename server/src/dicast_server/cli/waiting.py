"""Says on stderr that a server is waited for."""

from __future__ import annotations

import shutil
import sys
from types import TracebackType
from typing import TextIO


class Waiting:
    """Told what is waited for, over and over.

    On a terminal one line shows the latest, and is gone in the end; elsewhere the first is said, and no more.
    """

    def __init__(self, address: str, stream: TextIO | None = None) -> None:
        self._address = address
        self._stream = stream or sys.stderr
        self._said = False

    def __enter__(self) -> Waiting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._said and self._stream.isatty():
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def __call__(self, state: str) -> None:
        """Say it."""
        line = f"waiting for {self._address}: {' '.join(state.split())}"
        if self._stream.isatty():
            # A line that wraps could not be written over.
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(f"\r\x1b[K{line[:width]}")
            self._stream.flush()
        elif not self._said:
            print(line, file=self._stream)
        self._said = True
