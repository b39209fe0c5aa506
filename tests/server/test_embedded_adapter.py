"""The adapter that dicast comes with answers, where it is served, as the network did that learned it."""

import json
from pathlib import Path

import numpy as np

from dicast import AsyncClient
from dicast_server import caches
from dicast_server.calibration.dataset import read_dataset
from dicast_server.cli.default_adapter import default_adapter
from dicast_server.config import DEFAULT_MODEL
from dicast_server.evaluation.grpc_source import GrpcSource
from dicast_server.evaluation.local import served_here
from dicast_server.evaluation.source import Said
from dicast_server.evaluation.system import Asking
from dicast_server.service.loading import load_served
from dicast_server.service.registry import Registry

GOLDEN = Path(__file__).parent.parent / "fixtures" / "embedded_adapter.jsonl"
"""Answers of transformers, peft and PyTorch in float32: see training/adapter/golden.py."""


async def test_it_gives_the_probabilities_that_pytorch_gives() -> None:
    questions = read_dataset(GOLDEN).questions
    golden = [json.loads(line)["log_probabilities"] for line in GOLDEN.read_text("utf-8").splitlines()]
    registry = Registry.installed()
    async with (
        served_here(
            lambda: load_served(DEFAULT_MODEL, caches.location(), registry=registry),
            registry,
            DEFAULT_MODEL,
            0.0,
            default_adapter(DEFAULT_MODEL, plain=False),
        ) as (address, known),
        AsyncClient(address) as client,
    ):
        source = await GrpcSource.connect(client, "here", Asking(), known)
        for question, wanted in zip(questions, golden, strict=True):
            (said,) = await source.ask([question])
            assert isinstance(said, Said)
            assert said.scores is not None
            (scores,) = np.array(said.scores)
            found = scores - np.log(np.exp(scores).sum())
            np.testing.assert_allclose(found, wanted, atol=1e-3)
    assert {len(each) for each in golden} > {2, 3, 4}
