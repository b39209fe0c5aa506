"""What the store counts for a prefix is what the prefix takes."""

import gc
from typing import Any

import mlx.core as mx
import pytest
import tiny_models
from mlx import nn

from dicast_server.engine.reader import Prewarming, Reader, Tally, alone
from dicast_server.engine.store import PrefixStore


def phi3() -> nn.Module:
    """Projects queries, keys and values as one."""
    return tiny_models.model(tiny_models.config("phi3", 128, rope_scaling=None))


@pytest.mark.usefixtures("exact_memory")
@pytest.mark.parametrize(
    "model",
    [
        *(pytest.param(lambda name=name: tiny_models.family(name), id=name) for name in tiny_models.FAMILIES),
        pytest.param(phi3, id="phi3"),
    ],
)
def test_the_store_counts_all_bytes_that_its_chunks_take(model: Any) -> None:
    # Some keep views of larger arrays: the last inputs of a convolution, a part of a joint product.
    store = PrefixStore(2**30, lambda: 0.0)
    reader = Reader(model(), range(60, 68), 128, store)
    gc.collect()
    before = mx.get_active_memory()
    tokens = tuple(n * n % 127 for n in range(8 * 128))
    list(alone(reader.prewarm(Prewarming(tokens, b"", 1.0), Tally())))
    gc.collect()
    taken = mx.get_active_memory() - before
    assert store.counters.nbytes * 0.9 <= taken <= store.counters.nbytes * 1.1 + 2**16
