"""What `dicast tune` learned is what a server answers: the adapter's folder between them."""

from __future__ import annotations

from pathlib import Path

import labelled_rows
import mlx.core as mx
import pytest
import tiny_models
from mlx import nn
from mlx.utils import tree_flatten
from tiny_server import REGISTRY, predicate, request, serving

from dicast_server.calibration.dataset import read_dataset
from dicast_server.cli import tune
from dicast_server.cli.reporting import Findings
from dicast_server.service.adapters import Adapters
from dicast_server.service.loading import load_served


@pytest.mark.parametrize(
    ("family", "bits"),
    [
        ("llama", 32),
        ("llama", 16),
        ("llama", 4),
        ("gemma3_text", 32),
        # Experts and recurrent layers learn by MLX's gradients alone.
        ("qwen3_moe", 32),
        ("mamba2", 32),
    ],
)
async def test_a_server_gives_the_probabilities_that_were_judged(
    family: str, bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DICAST_CACHE", str(tmp_path / "cache"))
    settings = tiny_models.config(family, 272, **tiny_models.FAMILIES[family])
    tiny = tiny_models.model(settings)
    if bits == 16:
        tiny.set_dtype(mx.bfloat16)
    if bits == 4:
        nn.quantize(tiny, 32, bits)
        settings["quantization"] = {"group_size": 32, "bits": bits}
    weights = dict(tree_flatten(tiny.parameters()))
    model = tiny_models.write_folder(tmp_path / "tiny", settings, weights, tiny_models.qwen_like())
    # The random mamba2 happens to know the rows that say when to stop, but not the other way round.
    rows = [{**row, "expected": row["expected"] != (family == "mamba2")} for row in labelled_rows.doors()]
    data = labelled_rows.write(tmp_path / "doors.jsonl", rows)
    found: list[Findings] = []
    flags = ["--layers", "2", "--epochs", "3", "--learning-rate", "0.005", "--even-if-no-better"]
    flags += ["--out", str(tmp_path / "adapters" / "doors"), "--report", str(tmp_path / "page")]
    tune.main(
        [str(data), "--model", str(model), *flags],
        lambda folder, findings: found.append(findings),
    )
    questions = {question.id: question for question in read_dataset(data).questions}

    async with serving(
        lambda: load_served(str(model), tmp_path / "cache", registry=REGISTRY), least_option_mass=0.0
    ) as running:
        adapters = Adapters(running.host, lambda _: tmp_path / "adapters")
        await adapters.scan()
        changed = 0.0
        for name, side in zip(("tiny", "tiny:doors"), found[0].sides, strict=True):
            for judged, base in zip(side.predictions, found[0].sides[0].predictions, strict=True):
                question = questions[judged.id]
                assert isinstance(question.state, str)
                sent = request(predicate(instructions="y?"), state=question.state)
                sent.model = name
                reply = await running.decisions.Decide(sent)
                probability = reply.answers[0].predicate.probability
                assert probability == pytest.approx(judged.probabilities[0], abs=1e-4)
                changed = max(changed, abs(judged.probabilities[0] - base.probabilities[0]))
    # And it is not the base that answered twice.
    assert changed > 0.01
