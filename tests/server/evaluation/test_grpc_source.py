"""What a dicast server says, as it is judged."""

from __future__ import annotations

import math
from dataclasses import replace

import asked
import pytest
from tiny_server import serving

from dicast import AsyncClient, Predicate, PredicateAnswer
from dicast_server.evaluation.grpc_source import _read
from dicast_server.evaluation.source import Said, Unsaid


@pytest.mark.parametrize("probability", [math.nan, math.inf, 1.5, -0.1])
async def test_what_is_no_probability_is_no_answer(probability: float) -> None:
    async with serving() as running, AsyncClient(running.address) as client:
        answer = (await client.decide("The door is open.", {"p": Predicate("Is it?")}))["p"]
    assert isinstance(answer, PredicateAnswer)
    question = asked.question("p", "predicate", 2)
    assert isinstance(_read(question, answer), Said)
    broken = _read(question, replace(answer, probability=probability))
    assert broken == Unsaid("its probabilities are no numbers from 0 to 1")
