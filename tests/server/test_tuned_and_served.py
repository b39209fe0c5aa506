"""What `dicast tune` learned is what a server answers: the adapter's folder between them."""

from __future__ import annotations

from pathlib import Path

import labelled_rows
import pytest
import tiny_models
from mlx.utils import tree_flatten
from tiny_server import REGISTRY, predicate, request, serving

from dicast_server.calibration.dataset import read_dataset
from dicast_server.cli import tune
from dicast_server.cli.reporting import Findings
from dicast_server.service.adapters import Adapters
from dicast_server.service.loading import load_served


@pytest.mark.parametrize("family", ["llama", "gemma3_text"])
async def test_a_server_gives_the_probabilities_that_were_judged(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DICAST_CACHE", str(tmp_path / "cache"))
    settings = tiny_models.config(family, 272, **tiny_models.FAMILIES[family])
    weights = dict(tree_flatten(tiny_models.model(settings).parameters()))
    model = tiny_models.write_folder(tmp_path / "tiny", settings, weights, tiny_models.qwen_like())
    data = labelled_rows.write(tmp_path / "doors.jsonl", labelled_rows.doors())
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
