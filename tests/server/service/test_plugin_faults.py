"""A plugin that misbehaves fails its own request, INTERNAL and logged; everybody else is answered."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import grpc
import pytest
import scripted
from tiny_server import REGISTRY, predicate, refusal, request, serving

from dicast import jsontext
from dicast.v1 import decision_pb2 as pb
from dicast_server.decisions.passes import Prompt, Reading, Reads
from dicast_server.decisions.questions import Condition, Content, Outcome, Predicate, Question
from dicast_server.decisions.stages import Stages
from dicast_server.readouts.profile import STOCK
from dicast_server.readouts.readout import Model, Opening
from dicast_server.readouts.scores import predicate_probability


@dataclass(frozen=True)
class Faulty:
    """A readout that goes wrong as it is told."""

    how: str
    prompt_version: str = "faulty-1"

    def opening(self, question: Question | None) -> Opening:
        return Opening("", "s", "s and more")

    def read(self, question: Question, temperature: float, orders: int) -> Reads:
        if self.how == "asks nothing":
            return Reading((0.5, 0.5))
        if self.how == "exits at once":
            raise SystemExit
        yield (Prompt("s and more", ("A", "B"), (0, 1)),)
        match self.how:
            case "exits later":
                raise SystemExit
            case "is cancelled":
                raise asyncio.CancelledError
            case "fails":
                raise OSError("no such file")
            case "asks nothing more":
                yield ()
            case "asks for no label":
                yield (Prompt("s and more", ("ABC", "B"), (0, 1)),)
            case "asks too much":
                yield (Prompt("x" * 5000, ("A", "B"), (0, 1)),)
        return Reading(PROBABILITIES.get(self.how, (0.5, 0.5)))

    def later(self, question: Question) -> None:
        return None


PROBABILITIES = {
    "nan": (float("nan"), 0.5),
    "negative": (-1.0, 2.0),
    "no distribution": (0.9, 0.9),
    "one too many": (0.2, 0.3, 0.5),
}
FAULTS = [
    "asks nothing",
    "exits at once",
    "exits later",
    "is cancelled",
    "fails",
    "asks nothing more",
    "asks for no label",
    "asks too much",
    *PROBABILITIES,
]


class FaultyKind:
    name = "x_faulty"

    def settings(self, body: jsontext.Object) -> str:
        return str(body["how"])

    def open(self, state: Content, model: Model, settings: str) -> Faulty:
        return Faulty(settings)


WITH_FAULTS = replace(REGISTRY, readouts={**REGISTRY.readouts, "x_faulty": FaultyKind()})


def faulty(how: str) -> pb.Readout:
    return pb.Readout(extension=pb.Extension(name="x_faulty", json=jsontext.encode({"how": how})))


@pytest.mark.parametrize("how", FAULTS)
async def test_a_faulty_readout_fails_its_request_alone(how: str, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(registry=WITH_FAULTS) as running:
        # More often than there are places to plan in.
        for _ in range(3):
            call = running.decisions.Decide(request(predicate(), readout=faulty(how)), timeout=30)
            code, _, _ = await refusal(call)
            assert code is grpc.StatusCode.INTERNAL
        assert any(record.levelno >= logging.ERROR for record in caplog.records)
        assert (await running.decisions.Decide(request(predicate()), timeout=30)).answers


async def test_dicasts_own_readouts_are_not_plugins() -> None:
    async with serving() as running:
        own = pb.Readout(extension=pb.Extension(name="letters", json='{"style": []}'))
        code, _, _ = await refusal(running.decisions.Decide(request(predicate(), readout=own)))
        assert code is grpc.StatusCode.INVALID_ARGUMENT


def test_many_conditions_cost_no_more_than_there_are() -> None:
    """Four hundred questions that each wait for all before them: two conditions a pair, checked once each."""
    checked = 0

    class Counted(tuple[Condition, ...]):
        def __iter__(self) -> Iterator[Any]:
            nonlocal checked
            for each in super().__iter__():
                checked += 1
                yield each

    yes = (Outcome("bool", True),)
    questions = [
        Question(
            index,
            f"q{index}",
            None,
            "?",
            Predicate(),
            Counted(Condition(other, yes) for other in range(index)),
        )
        for index in range(400)
    ]
    stages = Stages(list(reversed(questions)))
    asked = 0
    while ready := stages.ready()[0]:
        for question in ready:
            asked += 1
            stages.done(question, yes[0])
    assert asked == 400
    assert checked <= 4 * sum(range(400))


@pytest.mark.parametrize("slope", [0.005, 1.829074, 2.0])
@pytest.mark.parametrize("clamp", [0.0, 1e-17, 1e-4])
@pytest.mark.parametrize("probability", [0.0, 1e-300, 0.3, 1.0 - 1e-16, 1.0])
def test_no_profile_breaks_a_predicate(slope: float, clamp: float, probability: float) -> None:
    profile = replace(STOCK, predicate_slope=slope, predicate_clamp=clamp)
    assert 0.0 <= predicate_probability(probability, profile) <= 1.0


def test_scripted_readouts_still_read() -> None:
    readout = Faulty("not at all")
    question = Question(0, "q", None, "?", Predicate())
    decided = scripted.decide([scripted.planned(readout, question, STOCK)])
    assert len(decided.answers) == 1
