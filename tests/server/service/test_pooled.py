"""A served model with a head: it answers by means of hidden states, and by nothing else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc
import numpy as np
import pooled_heads
import pytest
import tiny_server
from tiny_server import Running, choice, load_tiny, predicate, request, score, serving

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast.v1 import model_service_pb2 as model_pb
from dicast_server.readouts.profile import STOCK
from dicast_server.service.loading import Served

SIZE = tiny_server.tiny_llama().args.hidden_size
HEAD = pooled_heads.head(SIZE)


def load() -> Served:
    return load_tiny(head=HEAD)


@asynccontextmanager
async def pooled() -> AsyncIterator[Running]:
    async with serving(load) as running:
        yield running


async def answers(running: Running, sent: service_pb.DecideRequest) -> list[pb.Answer]:
    sent.options.detail = pb.DETAIL_LEVEL_FULL
    reply = await running.decisions.Decide(sent)
    return sorted(reply.answers, key=lambda answer: answer.index)


def probabilities(answer: pb.Answer) -> list[float]:
    if answer.HasField("predicate"):
        return [answer.predicate.probability, 1.0 - answer.predicate.probability]
    of: Any = answer.choice if answer.HasField("choice") else answer.score
    return [each.probability for each in of.probabilities]


async def test_every_type_of_question_is_answered_in_a_pass_each() -> None:
    async with pooled() as running:
        before = running.gate.count
        found = await answers(running, request(predicate(), choice(), score()))
        # The state, and the questions side by side.
        assert running.gate.count - before <= 1 + 3
        for answer in found:
            told = answer.diagnostics
            assert sum(probabilities(answer)) == pytest.approx(1.0)
            assert (told.readout, told.prompt_version, told.score_kind) == (
                "pooled",
                "pooled-1",
                "pooled_score",
            )
            assert (told.passes, told.option_mass) == (1, 1.0)
            (scores,) = told.scores
            raw = np.exp(np.array(scores.scores) - max(scores.scores))
            assert list(scores.options) == list(range(len(raw)))
            assert probabilities(answer) == pytest.approx((raw / raw.sum()).tolist())
        # A random head is of two minds about nothing.
        assert len({round(probabilities(answer)[0], 6) for answer in found}) == 3


async def test_the_same_bits_from_the_store_beside_others_and_alone() -> None:
    questions = (predicate(), choice(), score())
    state = "naïve 日本 😀 " * 40
    async with pooled() as running:
        first = [probabilities(each) for each in await answers(running, request(*questions, state=state))]
        again = [probabilities(each) for each in await answers(running, request(*questions, state=state))]
        assert first == again
        together = await answers(running, request(*questions, state=state, isolated=True))
        for place, question in enumerate(questions):
            (single,) = await answers(running, request(question, state=state, isolated=True))
            assert probabilities(single) == probabilities(together[place])
            assert probabilities(single) == pytest.approx(first[place], abs=1e-5)
        reference = request(*questions, state=state, mode=pb.MODE_INDEPENDENT)
        for place, answer in enumerate(await answers(running, reference)):
            assert probabilities(answer) == pytest.approx(first[place], abs=1e-4)


@pytest.mark.parametrize("state", ["", "{}", '{"größe": [1, null], "😀": "<|im_end|>"}'])
async def test_states_of_any_kind(state: str) -> None:
    sent = request(predicate(), choice("c", ["日本", " ", "<think>"]))
    sent.state.CopyFrom(pb.State(json=state) if state else pb.State(text=""))
    async with pooled() as running:
        for answer in await answers(running, sent):
            assert sum(probabilities(answer)) == pytest.approx(1.0)


async def test_orders_are_averaged() -> None:
    async with pooled() as running:
        (answer,) = await answers(running, request(choice(), orders=3))
        assert (answer.diagnostics.orders, answer.diagnostics.passes) == (3, 3)
        assert answer.diagnostics.order_spread > 0.0


@pytest.mark.parametrize(
    "readout",
    [
        pb.Readout(letters=pb.LettersReadout()),
        pb.Readout(direct=pb.DirectReadout()),
        pb.Readout(candidates=pb.CandidatesReadout()),
    ],
)
async def test_other_readouts_are_refused(readout: pb.Readout) -> None:
    async with pooled() as running:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.decisions.Decide(request(choice(), readout=readout))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "questions[0].readout" in str(caught.value.details())
        assert "nothing but means of hidden states" in str(caught.value.details())


async def test_a_model_without_a_head_does_not_read_by_one() -> None:
    async with serving(lambda: load_tiny(replace(STOCK, readout="pooled")), wait=False) as running:
        await running.server.make_ready()
        with pytest.raises(grpc.aio.AioRpcError):
            await running.decisions.Decide(request())
        assert "this model has not" in running.host.base.status_message


async def test_the_model_says_how_it_is_read() -> None:
    async with pooled() as running:
        model = (await running.models.GetModel(model_pb.GetModelRequest(name="tiny"))).model
        assert list(model.readouts) == ["pooled"]
        assert model.profile.prompt_version == "pooled-1"


async def test_a_state_is_kept_with_what_means_need() -> None:
    async with pooled() as running:
        state = "a long text " * 30
        await running.decisions.Prewarm(service_pb.PrewarmRequest(state=pb.State(text=state)))
        sent = request(predicate(), state=state)
        reply = await running.decisions.Decide(sent)
        assert reply.summary.usage.cached_tokens > 300


async def test_what_does_not_fit_is_refused() -> None:
    async with pooled() as running:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await running.decisions.Decide(request(predicate(), state="x " * 3000))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_what_is_kept_for_a_head_is_nobody_elses() -> None:
    plain, with_head = load_tiny(), load()
    assert plain.salt != with_head.salt
    base = plain.memory.prefixes
    assert with_head.memory.prefixes.token_bytes >= base.token_bytes + 4 * SIZE
