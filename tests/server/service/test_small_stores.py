"""Whatever the store has room for, answers keep their bits, and a prewarming that it cannot hold says so."""

from typing import Any

import pytest
from tiny_server import Running, load_tiny, predicate, request, score, serving

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast_server.engine.store import PrefixStore
from dicast_server.service.loading import Served

CHUNK_BYTES = 128 * 2 * 2 * 2 * 16 * 4  # 128 tokens, keys and values of 2 layers, 2 heads, 16 float32 each
LARGE = "It is a large state. " * 30  # five chunks and a part of one
OTHER = "It is another one... " * 30


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def storing(nbytes: int, clock: Clock | None = None) -> Any:
    def load() -> Served:
        served = load_tiny()
        served.reader.store = PrefixStore(nbytes, clock or Clock())
        return served

    return load


async def answers(running: Running, state: str) -> tuple[list[pb.Answer], int]:
    """The answers about a state, and how many of its tokens were in the store."""
    reply = await running.decisions.Decide(request(predicate(), score(), state=state))
    return list(reply.answers), reply.summary.usage.cached_tokens


async def prewarm(running: Running, state: str, seconds: int = 60) -> service_pb.PrewarmResponse:
    message = service_pb.PrewarmRequest(state=pb.State(text=state))
    message.time_to_live.FromSeconds(seconds)
    return await running.decisions.Prewarm(message)


@pytest.mark.parametrize(
    ("nbytes", "cached", "why"),
    [
        (0, 0, "one of its chunks takes 65536 bytes and the store has 0"),
        (CHUNK_BYTES - 1, 0, "one of its chunks takes 65536 bytes and the store has 65535"),
        (2 * CHUNK_BYTES, 256, "the store's 131072 bytes are full"),
    ],
)
async def test_a_state_that_is_larger_than_the_store(nbytes: int, cached: int, why: str) -> None:
    async with serving(storing(2**30)) as running:
        expected, _ = await answers(running, LARGE)
    async with serving(storing(nbytes)) as running:
        warmed = await prewarm(running, LARGE)
        assert not warmed.kept
        assert why in warmed.reason
        # Held or not, its beginning stays while nothing else wants the room.
        for _ in range(2):
            assert await answers(running, LARGE) == (expected, cached)
        assert running.host.served is not None
        assert running.host.served.reader.store.counters.nbytes <= nbytes


async def test_a_store_that_is_full_of_held_states_keeps_them_and_answers_about_others() -> None:
    clock = Clock()
    async with serving(storing(2**30)) as running:
        (first, _), (second, _) = await answers(running, LARGE), await answers(running, OTHER)
    async with serving(storing(6 * CHUNK_BYTES, clock)) as running:
        held = await prewarm(running, LARGE)
        assert held.kept
        refused = await prewarm(running, OTHER)
        assert not refused.kept
        assert "those that were prewarmed" in refused.reason
        assert await answers(running, LARGE) == (first, held.prefix_tokens)
        other, cached = await answers(running, OTHER)
        assert (other, cached < 128) == (second, True)
        assert await answers(running, LARGE) == (first, held.prefix_tokens)
        clock.now = 61.0
        assert (await prewarm(running, OTHER)).kept
        assert await answers(running, OTHER) == (second, refused.prefix_tokens)
