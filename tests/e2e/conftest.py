"""The real thing: `dicast up` on free ports with the embedded model, once for this folder."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from running_pair import Pair, running_pair


@pytest.fixture(scope="session")
def pair(smollm2_path: Path) -> Iterator[Pair]:
    command = [sys.executable, "-m", "dicast.cli", "up", "--grpc-port", "0", "--http-port", "0"]
    with running_pair(command, signal.SIGTERM) as pair:
        yield pair
