"""Prefixes are shared by the same model, tenant and cache salt alone."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import diagnostics
from tiny_server import REGISTRY, load_tiny, predicate, request, tiny_llama

from dicast_server.engine.reader import Tally, alone
from dicast_server.service.limits import Limits
from dicast_server.service.loading import Served
from dicast_server.service.planning import Planner
from dicast_server.service.requests import read_request

SERVED = load_tiny()
STATE = "It is a state of two chunks and more. " * 8
NAMES = st.one_of(st.text(), st.sampled_from(["", "a", '"', '", "', '["', "\\", '\\"']))


def planner(served: Served) -> Planner:
    return served.planner(REGISTRY)


@given(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES))
def test_salts_are_alike_where_tenant_and_cache_salt_are(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    salts = [planner(SERVED).prewarm("", 1.0, salt, tenant).salt for tenant, salt in (one, other)]
    assert (salts[0] == salts[1]) == (one == other)


def read(served: Served, tenant: str = "", salt: str = "", *, state: str = STATE) -> tuple[list[Any], int]:
    """The raw scores about a state, and the tokens that were in the store."""
    message = request(predicate(), state=state, cache_salt=salt)
    work = planner(served).plan(read_request(message, Limits(), REGISTRY), tenant)
    tally = Tally()
    steps = alone(work.start(served.reader, tally))
    return [diagnostics(a).passes for a in itertools.chain.from_iterable(steps)], tally.cached_tokens


@pytest.mark.parametrize(
    "other",
    [
        lambda: (load_tiny(model=tiny_llama(tie_word_embeddings=False)), {"weights_hash": "another"}),
        lambda: (load_tiny(), {"quantization": "another"}),
    ],
    ids=["weights", "quantization"],
)
def test_two_models_in_one_store_share_nothing(other: Any) -> None:
    first = load_tiny()
    second, changed = other()
    second = replace(second, model=replace(second.model, **changed))
    expected, _ = read(second)
    second.reader.store = first.reader.store
    for served, cached in ((first, False), (second, False), (first, True), (second, True)):
        scores, found = read(served)
        assert (found > 0) == cached
        assert served is first or scores == expected


def test_two_sizes_of_forwards_in_one_store_share_nothing() -> None:
    first, second = load_tiny(), load_tiny()
    second = replace(second, machinery=replace(second.machinery, forward_tokens=64))
    second.reader.forward_tokens = 64
    second.reader.store = first.reader.store
    # Shorter than both, so that its one chunk holds the same tokens in both.
    found = [read(served, state="It is short.")[1] > 0 for served in (first, second, first, second)]
    assert found == [False, False, True, True]


def test_two_tenants_or_salts_share_nothing_and_get_the_same_bits() -> None:
    callers = [("", ""), ("a", ""), ("", "a"), ("a", "a"), ('a", "', "")]
    served = load_tiny()
    cold = [read(served, *caller) for caller in callers]
    assert all(cached == 0 for _, cached in cold)
    assert all(scores == cold[0][0] for scores, _ in cold)
    assert all(read(served, *caller)[1] > 256 for caller in callers)
