"""An adapter with a head as it is served: read by its head alone, by name or in the model's place."""

import json
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pooled_heads
import pytest
import safetensors.numpy
import served_adapters
import tiny_adapters
from served_adapters import Adapted, adapted, write, write_pooled
from tiny_server import REGISTRY, predicate, refusal, request, serving

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import model_service_pb2 as model_pb
from dicast_server.adapters import file
from dicast_server.service.adapter_loading import AdapterPlace
from dicast_server.service.host import Status
from dicast_server.service.loading import load_served

SMOLLM2 = "smollm2-135m-instruct"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Adapted]:
    write(tmp_path / "plain")
    write_pooled(tmp_path / "headed")
    async with adapted(tmp_path) as running:
        yield running


def probabilities(reply: service_pb.DecideResponse) -> list[float]:
    (yes, choice, score) = reply.answers
    return [
        yes.predicate.probability,
        *(each.probability for each in choice.choice.probabilities),
        *(each.probability for each in score.score.probabilities),
    ]


async def decided(served: Adapted, model: str, **how: Any) -> list[float]:
    return probabilities(await served.running.decisions.Decide(served.of(model, **how)))


async def test_it_answers_by_its_head(served: Adapted) -> None:
    plain, headed = await decided(served, "tiny"), await decided(served, "tiny:headed")
    assert headed != plain
    assert all(math.isfinite(each) for each in headed)
    assert sum(headed[1:4]) == pytest.approx(1.0)
    assert await decided(served, "tiny") == plain
    assert await decided(served, "tiny:headed", isolated=True) == pytest.approx(headed, abs=1e-5)
    assert await decided(served, "tiny:headed", mode=pb.MODE_INDEPENDENT) == pytest.approx(headed, abs=1e-4)


async def test_it_says_how_it_is_read(served: Adapted) -> None:
    shown = (await served.models())["tiny:headed"]
    adapter = file.read(served.folder / "headed")
    assert adapter.hash != adapter.weights_sha256
    assert shown.adapter.hash == adapter.hash == json.loads(shown.calibration.wanted)["adapter"]
    assert (shown.adapter.readout, list(shown.readouts)) == ("pooled", ["pooled"])
    sent = served.of("tiny:headed")
    sent.options.detail = pb.DETAIL_LEVEL_BASIC
    reply = await served.running.decisions.Decide(sent)
    assert {answer.diagnostics.readout for answer in reply.answers} == {"pooled"}


async def test_other_readouts_are_refused(served: Adapted) -> None:
    sent = request(predicate(), readout=pb.Readout(letters=pb.LettersReadout()))
    sent.model = "tiny:headed"
    code, *_ = await refusal(served.running.decisions.Decide(sent))
    assert code is grpc.StatusCode.INVALID_ARGUMENT


async def test_another_head_takes_its_place(served: Adapted) -> None:
    before, one = await decided(served, "tiny:headed"), file.read(served.folder / "headed")
    assert one.head is not None
    contents = file.read_contents(served.folder / "headed")
    head = safetensors.numpy.save(pooled_heads.tensors(64, seed=9))
    other = file.write(
        served.folder / "headed",
        tiny_adapters.description_of(
            served_adapters.base().model, modules=one.modules, tuned_for=one.tuned_for
        ),
        contents.weights,
        (one.head.layers, head),
    )
    await served.adapters.scan()
    assert one.weights_sha256 == other.weights_sha256
    assert (await served.models())["tiny:headed"].adapter.hash == other.hash != one.hash
    assert await decided(served, "tiny:headed") != before


async def test_a_head_that_is_damaged_is_refused(tmp_path: Path) -> None:
    write_pooled(tmp_path / "headed")
    path = tmp_path / "headed" / file.HEAD
    path.write_bytes(path.read_bytes()[:-1])
    async with adapted(tmp_path) as served:
        shown = (await served.models())["tiny:headed"]
        assert shown.status == model_pb.Model.STATUS_REFUSED
        assert "head.safetensors" in shown.status_message


async def test_it_answers_in_the_models_place(tmp_path: Path) -> None:
    write_pooled(tmp_path / "adapters" / "headed")
    write_pooled(tmp_path / "shipped")
    place = AdapterPlace("decision", tmp_path / "shipped")
    async with adapted(tmp_path / "adapters", default=place, least_option_mass=0.02) as served:
        assert (await served.ask())[0] == "tiny:decision"
        assert await decided(served, "") == await decided(served, "tiny:headed")


async def test_the_embedded_model_answers_by_ten_layers(tmp_path: Path, smollm2_path: Path) -> None:
    cache = smollm2_path.parents[1]
    plain = load_served(SMOLLM2, cache)
    adapter = tiny_adapters.write_pooled(
        tmp_path / "shipped",
        plain.model,
        served_adapters.tuned_for("pooled"),
        layers=10,
        head_rank=32,
        rank=16,
        size=0.02,
    )
    assert len(adapter.modules) == 70
    del plain
    place = AdapterPlace("decision", tmp_path / "shipped")
    async with serving(
        lambda: load_served(SMOLLM2, cache, registry=REGISTRY), default=place, least_option_mass=0.02
    ) as running:
        assert running.host.status is Status.READY, running.host.status_message
        reply = await running.decisions.Decide(request())
        assert reply.summary.model == f"{SMOLLM2}:decision"
        assert all(math.isfinite(each) for each in probabilities(reply))
        again = await running.decisions.Decide(request())
        assert probabilities(again) == probabilities(reply)
