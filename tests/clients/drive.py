"""Runs other people's clients, each in its own environment, against the gateway and a scripted server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gateway.served import Loop, ScriptedServer, failing, grpc_served, http_served, uniform
from grpc import StatusCode

from dicast.v1 import decision_service_pb2 as service_pb

HERE = Path(__file__).parent
ROOMS = HERE.parents[1] / ".clients"
PYTHON = ROOMS / "python" / "bin" / "python"
NODE = ROOMS / "node"
PATIENCE_S = 120

SCRIPTS = {
    "with_langchain.py": ("langchain-openai",),
    "with_litellm.py": ("litellm",),
    "with_dspy.py": ("dspy",),
    "with_pydecide.py": ("pydecide",),
    "with_typesafe.mjs": ("@typesafe-ai/sdk",),
    "with_openai.mjs": ("openai",),
    "with_ai_sdk.mjs": ("ai", "@ai-sdk/openai"),
}
"""Every script with the packages that it tries."""

_missing = failing(StatusCode.NOT_FOUND, "no model 'missing': there is one, m", "MODEL_NOT_FOUND")


async def answer(request: service_pb.DecideRequest, context: Any) -> service_pb.DecideResponse:
    """Every option as probable as any other, and one model that is not there."""
    return await (_missing if request.model == "missing" else uniform)(request, context)


def command(script: str) -> list[str]:
    if script.endswith(".py"):
        return [str(PYTHON), str(HERE / "python" / script)]
    # Node looks for packages beside the script and above it, so the script goes where they are.
    return [str(PYTHON.with_name("node")), str(shutil.copy(HERE / "node" / script, NODE / script))]


def version(script: str, package: str) -> str:
    if script.endswith(".py"):
        ask = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
        return subprocess.run(
            [PYTHON, "-c", ask, package], check=True, capture_output=True, text=True
        ).stdout.strip()
    described = json.loads((NODE / "node_modules" / package / "package.json").read_text())
    return str(described["version"])


def environment() -> dict[str, str]:
    """The caller's, without what could send a client elsewhere than to the gateway."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and not name.startswith(("OPENAI_", "TYPESAFE_", "LANGSMITH_"))
    }
    # Without it litellm fetches its prices from the network when it is imported.
    return kept | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def attempt(script: str, url: str) -> tuple[bool, str, float]:
    """Whether a client got what it wanted, what it said, and how long it took."""
    began = time.monotonic()
    try:
        done = subprocess.run(
            [*command(script), url],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"no end within {PATIENCE_S} s", time.monotonic() - began
    said_ok = done.stdout.rstrip().endswith("ok")
    return done.returncode == 0 and said_ok, done.stdout, time.monotonic() - began


def main() -> int:
    server = ScriptedServer()
    server.script = answer
    loop = Loop()
    with (
        loop.entered(grpc_served(server)) as port,
        loop.entered(http_served(port)) as url,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        outcomes = list(pool.map(lambda script: attempt(script, url), SCRIPTS))
    loop.close()
    for (script, packages), (fine, said, seconds) in zip(SCRIPTS.items(), outcomes, strict=True):
        for package in packages:
            verdict = "ok" if fine else "FAILED"
            print(f"{package:<20} {version(script, package):<12} {verdict:<8} {seconds:5.1f} s")
        if not fine:
            print(said, file=sys.stderr)
    return 0 if all(fine for fine, _, _ in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
