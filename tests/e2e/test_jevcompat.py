"""The public conformance suite for System One, `jevcompat`: 48 requirements, checked from outside."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gateway.served import MODEL, Loop, ScriptedServer, failing, grpc_served, http_served, uniform
from grpc import StatusCode
from running_pair import Pair
from spoiling_proxy import spoiled
from tiny_server import load_tiny, serving

from dicast.v1 import decision_service_pb2 as service_pb
from dicast_server.service.keys import Keys, digest, new_key

KEYLESS = {"auth.bearer", "auth.missing", "auth.invalid"}
"""Requirements on a server with keys."""


LONG_ENOUGH = 100_000


@dataclass(frozen=True)
class Report:
    """What a run of the suite found, by requirement."""

    failed: dict[str, str]
    """What is wrong, in the suite's words."""
    skipped: set[str]
    passed: int


def jevcompat(url: str, folder: Path, key: str | None = None) -> Report:
    """Run the whole suite against the server at a root URL, with an API key where the server wants one."""
    path = folder / "report.json"
    command = [sys.executable, "-m", "jevcompat.cli", "test", url, "--json", str(path)]
    if key is not None:
        command += ["--key", key]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert path.exists(), done.stdout + done.stderr
    found = json.loads(path.read_text())
    # A busy server, a lost connection: then the suite knows less than its summary shows.
    assert (found["aborted"], found["case_errors"], found["inconclusive"]) == (None, [], []), done.stdout
    by_status: dict[str, dict[str, Any]] = {"pass": {}, "fail": {}, "skip": {}}
    for result in found["results"]:
        by_status[result["status"]][result["id"]] = result
    failed = {
        id: "\n".join(finding["message"] for finding in result["findings"])
        for id, result in by_status["fail"].items()
    }
    must_failed = any(result["level"] == "MUST" for result in by_status["fail"].values())
    assert done.returncode == int(must_failed), done.stdout
    return Report(failed, set(by_status["skip"]), len(by_status["pass"]))


@pytest.mark.timeout(400)
def test_the_real_pair(pair: Pair, tmp_path: Path) -> None:
    report = jevcompat(pair.base_url, tmp_path)
    assert report.failed == {}
    assert report.skipped == KEYLESS
    assert report.passed == 48 - len(KEYLESS)


def test_a_server_with_keys(tmp_path: Path) -> None:
    key, loop = new_key(), Loop()
    engine = serving(lambda: load_tiny(context=LONG_ENOUGH), keys=Keys({digest(key): "suite"}))
    with (
        loop.entered(engine) as running,
        loop.entered(http_served(int(running.address.rpartition(":")[2]))) as url,
    ):
        report = jevcompat(url, tmp_path, key)
    loop.close()
    assert report.failed == {}
    assert report.skipped == {"auth.ignored-when-off"}


async def even(request: service_pb.DecideRequest, context: Any) -> service_pb.DecideResponse:
    """Probabilities that are equal, and the confidence that goes with them: 1 where there is one option."""
    if request.model not in MODEL.aliases:
        return await failing(StatusCode.NOT_FOUND, "no such model", "MODEL_NOT_FOUND")(request, context)
    response = await uniform(request, context)
    for answer in response.answers:
        if len(answer.choice.probabilities) == 1:
            answer.choice.confidence = 1
    return response


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    """The gateway before a server that finds every answer as probable as any other, at once."""
    server = ScriptedServer()
    server.script = even
    loop = Loop()
    with loop.entered(grpc_served(server)) as port, loop.entered(http_served(port)) as url:
        yield url
    loop.close()


def nothing(tree: Any) -> None:
    pass


def confidence_is_the_top_probability(tree: Any) -> None:
    for answer in tree.get("answers", {}).values():
        if "confidence" in answer:
            answer["confidence"] = max(answer["probabilities"].values())


def counts_are_floats(tree: Any) -> None:
    for name, count in tree.get("usage", {}).items():
        tree["usage"][name] = float(count)


@pytest.mark.parametrize(
    ("spoil", "failed"),
    [
        (nothing, set()),
        (confidence_is_the_top_probability, {"confidence.formula"}),
        (counts_are_floats, {"response.usage", "dropin.sdk-python"}),
    ],
)
def test_the_gateway_alone_passes_and_one_spoiled_thing_fails(
    gateway: str, tmp_path: Path, spoil: Any, failed: set[str]
) -> None:
    with spoiled(gateway, spoil) as url:
        report = jevcompat(url, tmp_path)
    assert report.failed.keys() == failed, report.failed
    assert report.skipped == KEYLESS
