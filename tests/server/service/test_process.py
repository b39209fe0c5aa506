"""`dicast serve` as a process: how it ends with work in flight, by a signal and by its engine's death."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status
from tiny_server import predicate, request

from dicast.v1.decision_service_pb2_grpc import DecisionServiceStub

PATIENCE_S = 30
PROGRAM = Path(__file__).parents[2] / "tiny_serve.py"


@dataclass(frozen=True)
class Serving:
    """A process that serves the tiny model, and the ways to it."""

    process: "subprocess.Popen[str]"
    channel: grpc.Channel

    def reads(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip()

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def decide(self, state: str) -> Any:
        """A call under way."""
        return DecisionServiceStub(self.channel).Decide.future(
            request(predicate(), state=state), timeout=PATIENCE_S
        )

    def until(self, reason: str) -> None:
        """Ask until that is why a call is refused."""
        give_up = time.monotonic() + PATIENCE_S
        while reason_of(self.decide("a call")) != reason:
            assert time.monotonic() < give_up

    def health(self) -> Iterator[int]:
        stub = health_pb2_grpc.HealthStub(self.channel)
        for reply in stub.Watch(health_pb2.HealthCheckRequest()):
            yield reply.status

    def ends(self) -> tuple[int, str]:
        """The exit code and the log."""
        _, log = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, log


@contextmanager
def serving(*flags: str) -> Iterator[Serving]:
    command = [sys.executable, str(PROGRAM), "--grpc-port", "0", "--min-option-mass", "0", *flags]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            with grpc.insecure_channel(process.stdout.readline().split()[1]) as channel:
                serving = Serving(process, channel)
                assert health_pb2.HealthCheckResponse.SERVING in serving.health()
                yield serving
        finally:
            process.kill()


def reason_of(call: Any) -> str:
    """Why a call was refused, as its ErrorInfo says; empty where it was answered."""
    error = call.exception()
    status = rpc_status.from_call(error) if error is not None else None
    info = error_details_pb2.ErrorInfo()
    if status is not None:
        status.details[0].Unpack(info)
    return str(info.reason)


def test_a_model_answers_to_other_names_and_says_its_own() -> None:
    with serving("--alias", "gpt-5-mini", "--alias", "judge") as server:
        stub = DecisionServiceStub(server.channel)
        for name in ("gpt-5-mini", "judge", "jev-latest"):
            message = request(predicate())
            message.model = name
            assert stub.Decide(message, timeout=PATIENCE_S).summary.model == "tiny"


def test_sigterm_lets_work_in_flight_finish_and_takes_nothing_new() -> None:
    with serving("--in-flight", "2") as server:
        held = server.decide("~")
        assert server.reads() == "held"
        queued = server.decide("queued")
        server.until("OVERLOADED")
        server.process.send_signal(signal.SIGTERM)
        server.until("DRAINING")
        assert not held.done()
        server.tell("go")
        assert held.result().answers
        assert queued.result().answers
        code, log = server.ends()
    assert (code, "Traceback" in log) == (0, False)


def test_the_engines_death_fails_all_calls_and_ends_the_process_with_a_message() -> None:
    with serving("--in-flight", "4", "--drain", "600") as server:
        health = server.health()
        assert next(health) == health_pb2.HealthCheckResponse.SERVING
        calls = [server.decide("~")]
        assert server.reads() == "held"
        calls += [server.decide(f"waiting {n}") for n in range(3)]
        server.until("OVERLOADED")
        server.tell("die")
        assert {call.exception().code() for call in calls} == {grpc.StatusCode.UNAVAILABLE}
        assert "MODEL_UNAVAILABLE" in {reason_of(call) for call in calls}
        with pytest.raises(grpc.RpcError):
            # Ready it is never again.
            assert health_pb2.HealthCheckResponse.SERVING not in health
        code, log = server.ends()
    assert code == 1
    assert "SystemExit: told to die" in log
    assert "dicast serve: the engine died; its log says why\n" in log
