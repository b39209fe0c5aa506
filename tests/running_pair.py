"""An engine and a gateway in processes of their own, as `dicast up` starts them."""

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

PATIENCE_S = 60


@dataclass(frozen=True)
class Pair:
    """Addresses of a running engine and gateway."""

    grpc: str
    http: str

    @property
    def base_url(self) -> str:
        return f"http://{self.http}"


@contextmanager
def running_pair(command: Sequence[str], stop: signal.Signals) -> Iterator[Pair]:
    """Run a command that prints both addresses once it is ready; `stop` must end it with exit code 0."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline().split() for _ in range(2)]
            assert [line[0] for line in lines] == ["grpc", "http"]
            yield Pair(lines[0][1], lines[1][1])
            process.send_signal(stop)
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
