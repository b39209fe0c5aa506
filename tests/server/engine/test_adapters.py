"""Readers with adapters beside the base's: their own answers, everybody's bits, one memory."""

import gc
import random
import weakref
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import tiny_adapters
import tiny_models
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlx.utils import tree_flatten
from reading import Once, assert_same, passes_over, read_work, storing, tokens, values

from dicast_server import blas
from dicast_server.adapters.errors import AdapterRefused
from dicast_server.decisions.passes import Pass
from dicast_server.engine import reader as reader_module
from dicast_server.engine.adapting import Adapting, Dropping
from dicast_server.engine.cpu_trunk import CpuTrunk
from dicast_server.engine.machinery import machinery
from dicast_server.engine.prefix import empty_prefix
from dicast_server.engine.reader import Reader, Tally, Work, alone
from dicast_server.models.adapted import adapted


def trunks(family: str, threads: int, count: int = 1) -> tuple[Any, CpuTrunk, list[tuple[Any, CpuTrunk]]]:
    """A model, its trunk, and both with adapters."""
    model = tiny_models.family(family)
    base = CpuTrunk.of(model, threads)
    assert base is not None
    loaded = tiny_adapters.loaded(model)
    found = []
    for seed in range(count):
        tree = adapted(loaded, *tiny_adapters.of(loaded, seed))
        trunk = CpuTrunk.of(tree, threads, base)
        assert trunk is not None
        found.append((tree, trunk))
    return model, base, found


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("lengths", [[1], [40], [7, 3, 7]])
def test_the_cpus_trunk_gives_mlx_lms_hidden_states(family: str, threads: int, lengths: list[int]) -> None:
    _, _, [(tree, trunk)] = trunks(family, threads)
    drawn = random.Random(0)
    prefix = empty_prefix(tree)
    caches = prefix.caches(1)
    trunk([[drawn.randrange(128) for _ in range(20)]], caches)
    prefix = prefix.after(caches, 20)
    rows = [[drawn.randrange(128) for _ in range(length)] for length in lengths]
    ours = np.array(trunk(rows, prefix.caches(len(rows))))
    for row, hidden in zip(rows, ours, strict=True):
        theirs = np.array(tree.model(mx.array([row]), cache=prefix.caches(1)))[0, -1]
        assert hidden == pytest.approx(theirs, abs=1e-4)


def test_adapters_do_not_multiply_the_memory_of_the_base() -> None:
    _, base, found = trunks("llama", 2, count=3)
    weights = [
        getattr(layer, name) for layer in base._layers for name in ("queries", "keys", "values", "output")
    ]
    for _, trunk in found:
        others = [
            getattr(layer, name)
            for layer in trunk._layers
            for name in ("queries", "keys", "values", "output")
        ]
        for one, other in zip(weights, others, strict=True):
            assert np.shares_memory(one.weight, other.weight)
            assert one.beside is None
            assert other.beside is not None
        for one, other in zip(base._layers, trunk._layers, strict=True):
            assert np.shares_memory(one.mlp.down.weight, other.mlp.down.weight)
        assert np.shares_memory(base._embeddings, trunk._embeddings)
        assert trunk._others is base._others


@pytest.mark.usefixtures("exact_memory")
def test_many_adapters_take_the_memory_of_their_own_matrices() -> None:
    reader, loaded = served()
    made = [tiny_adapters.of(loaded, seed) for seed in range(4)]
    gc.collect()
    before = mx.get_active_memory()
    for number, (adapter, weights) in enumerate(made, 1):
        add(reader, loaded, adapter, weights, number)
    gc.collect()
    taken = mx.get_active_memory() - before
    own = sum(len(weights) for _, weights in made)
    assert taken < 1.5 * own
    assert taken < 0.5 * sum(array.nbytes for _, array in tree_flatten(loaded.model.parameters()))


def served(family: str = "llama", budget: int = 2**30) -> tuple[Reader, Any]:
    """A base's reader with a store, and the model as it was loaded."""
    model = tiny_models.family(family)
    return storing(model, budget), tiny_adapters.loaded(model)


def add(reader: Reader, loaded: Any, adapter: Any, weights: bytes, number: int) -> None:
    """Run the work that adds an adapter."""
    base = machinery(reader, blas.ensure())
    results = list(alone(Adapting(loaded, adapter, weights, number, base).start(reader, Tally())))
    assert [len(step) for step in results] == [0, 0, 1]
    assert results[-1][0] == machinery(reader.beside(number), blas.ensure())


def drop(reader: Reader, number: int) -> None:
    for _ in alone(Dropping(number).start(reader, Tally())):
        pass


def ask(reader: Reader, number: int, prefix: tuple[int, ...], passes: list[Pass], **how: Any) -> Any:
    """What a reader of a number says."""
    scores, *_ = read_work(reader.beside(number), passes, (prefix,), salt=bytes([number]), **how)
    return values(scores)


PREFIX = tokens(40, 99)
PASSES = passes_over(PREFIX, [6, 9, 3])


@pytest.mark.parametrize("family", ["llama", "qwen3_moe", "gemma3_text", "qwen3_5"])
def test_an_adapters_reader_gives_the_adapted_models_scores(family: str) -> None:
    reader, loaded = served(family)
    keys = [key for key in tiny_adapters.KEYS if key.startswith("self_attn")]
    adapter, weights = tiny_adapters.of(loaded, modules=tiny_adapters.modules_of(loaded.model, keys))
    add(reader, loaded, adapter, weights, 1)
    tree = adapted(loaded, adapter, weights)
    scores, *_ = read_work(reader.beside(1), PASSES, (PREFIX,))
    for index, pass_ in enumerate(PASSES):
        assert_same(tree, pass_, scores[index])


def test_the_reference_mode_reads_the_adapted_model() -> None:
    reader, loaded = served()
    add(reader, loaded, *tiny_adapters.of(loaded), 1)
    shared, independent = ask(reader, 1, PREFIX, PASSES), ask(reader, 1, PREFIX, PASSES, independent=True)
    for index in shared:
        one, other = (np.array(each[index][0]) for each in (shared, independent))
        assert one - one[0] == pytest.approx(other - other[0], abs=1e-4)


def test_the_base_keeps_its_bits_while_adapters_come_answer_and_go() -> None:
    reader, loaded = served(budget=0)
    before = ask(reader, 0, PREFIX, PASSES)
    add(reader, loaded, *tiny_adapters.of(loaded, 1), 1)
    assert ask(reader, 0, PREFIX, PASSES) == before
    assert ask(reader, 1, PREFIX, PASSES) != before
    assert ask(reader, 0, PREFIX, PASSES) == before
    drop(reader, 1)
    assert ask(reader, 0, PREFIX, PASSES) == before


ALONE: dict[int, Any] = {}


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
    st.booleans(),
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_taking_turns_in_any_order_changes_no_bit(order: list[int], drawn: Any, keeping: bool) -> None:
    if not ALONE:
        for number in range(3):
            reader, loaded = served(budget=0)
            for other in range(1, number + 1):
                add(reader, loaded, *tiny_adapters.of(loaded, other), other)
            ALONE[number] = ask(reader, number, PREFIX, PASSES)
    reader, loaded = served(budget=2**30 if keeping else 0)
    for number in (1, 2):
        add(reader, loaded, *tiny_adapters.of(loaded, number), number)
    rounds = [Once(PASSES) for _ in order]
    running = [
        Work((PREFIX,), script, salt=bytes([number]), through=number).start(reader, Tally())
        for number, script in zip(order, rounds, strict=True)
    ]
    left = list(running)
    while left:
        steps = drawn.choice(left)
        try:
            next(steps)
        except StopIteration:
            left.remove(steps)
    for number, script in zip(order, rounds, strict=True):
        assert values(script.scores) == ALONE[number]


def test_the_store_has_one_budget_and_forgets_with_the_adapter() -> None:
    reader, loaded = served()
    add(reader, loaded, *tiny_adapters.of(loaded), 1)
    ask(reader, 0, PREFIX, PASSES)
    base = reader.store.counters.nbytes
    ask(reader, 1, PREFIX, PASSES)
    assert reader.beside(1).store is reader.store
    assert reader.store.counters.nbytes == 2 * base
    drop(reader, 1)
    assert reader.store.counters.nbytes == base
    _, tally, _ = read_work(reader, PASSES, (PREFIX,), salt=bytes([0]))
    assert tally.cached_tokens == len(PREFIX)


@pytest.mark.usefixtures("exact_memory")
def test_memory_goes_with_the_adapter() -> None:
    reader, loaded = served()
    adapter, weights = tiny_adapters.of(loaded)
    gc.collect()
    before = mx.get_active_memory()
    add(reader, loaded, adapter, weights, 1)
    gone = weakref.ref(reader.beside(1))
    ask(reader, 1, PREFIX, PASSES)
    drop(reader, 1)
    gc.collect()
    assert gone() is None
    assert mx.get_active_memory() == before
    with pytest.raises(KeyError):
        reader.beside(1)


@pytest.mark.parametrize("number", [1, 2])
def test_dropping_what_is_not_there_is_nothing(number: int) -> None:
    reader, _ = served()
    drop(reader, number)


def test_an_adapter_whose_parts_do_not_agree_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, loaded = served()
    adapter, weights = tiny_adapters.of(loaded)
    monkeypatch.setattr(reader_module, "tails_agree", lambda *_: False)
    with pytest.raises(AdapterRefused, match="cannot be read in parts: tails over a prefix differ"):
        add(reader, loaded, adapter, weights, 1)
    with pytest.raises(KeyError):
        reader.beside(1)


def test_half_precision_goes_mlx_lms_way() -> None:
    model = tiny_models.family("llama")
    model.set_dtype(mx.bfloat16)
    reader, loaded = storing(model), tiny_adapters.loaded(model)
    before = ask(reader, 0, PREFIX, PASSES)
    add(reader, loaded, *tiny_adapters.of(loaded), 1)
    assert reader.beside(1).head.runs_on == "LlamaModel"
    assert ask(reader, 1, PREFIX, PASSES) != before
    assert ask(reader, 0, PREFIX, PASSES) == before


def test_a_head_of_its_own_may_be_adapted_too() -> None:
    model = tiny_models.family("llama", tie_word_embeddings=False)
    reader, loaded = storing(model), tiny_adapters.loaded(model)
    modules = ("lm_head", "model.layers.0.self_attn.q_proj")
    adapter, weights = tiny_adapters.of(loaded, modules=modules)
    add(reader, loaded, adapter, weights, 1)
    assert (reader.head.path, reader.beside(1).head.path) == ("rows", "logits")
    tree = adapted(loaded, adapter, weights)
    scores, *_ = read_work(reader.beside(1), PASSES, (PREFIX,))
    for index, pass_ in enumerate(PASSES):
        assert_same(tree, pass_, scores[index])
