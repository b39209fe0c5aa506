"""Candidates read as rows behind their question, against the independent path and full forwards."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import tiny_models
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx import nn
from reading import LABELS, VOCABULARY, Once, WithOddCaches, read_work, storing, tokens, values

from dicast_server.decisions.passes import Pass, Scores
from dicast_server.engine.reader import Reader, Tally, Work, alone

MODELS = {
    name: tiny_models.family(name, VOCABULARY) for name in ("llama", "qwen3_5", "gemma3_text", "mamba2")
}
MODELS["opaque"] = WithOddCaches(MODELS["llama"])
READERS = {name: storing(model) for name, model in MODELS.items()}
LLAMA = MODELS["llama"]
TOLERANCE = 1e-4


def full_forward(model: nn.Module, prompt: Sequence[int], candidate: Sequence[int]) -> float:
    """A candidate's log-probability by one forward of the whole model, in float64 from its logits on."""
    logits = tiny_models.logits(model, [*prompt, *candidate])[len(prompt) - 1 : -1].astype(np.float64)
    totals = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
    return float((logits[np.arange(len(candidate)), list(candidate)] - totals).sum())


def continuations(count: int, lengths: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    return tuple(tokens(lengths[seed % len(lengths)], 1000 + seed) for seed in range(count))


def assert_right(reader: Reader, model: nn.Module, pass_: Pass, scores: Scores) -> None:
    """A pass against the model itself, and against the independent path."""
    expected = [full_forward(model, pass_.tokens, candidate) for candidate in pass_.candidates]
    assert scores.values == pytest.approx(expected, abs=TOLERANCE)
    assert scores.mass == pytest.approx(min(1.0, sum(np.exp(expected))), abs=TOLERANCE)
    independent = read_work(reader, [pass_], independent=True)[0][0]
    assert scores.values == pytest.approx(independent.values, abs=TOLERANCE)
    assert scores.mass == pytest.approx(independent.mass, abs=TOLERANCE)


SHAPES = {
    "one token each": continuations(5, [1]),
    "one begins another": ((7,), (7, 8), (7, 8, 9), (7, 8, 10), (9, 9)),
    "alike": ((7, 8), (7, 8), (9,)),
    "64 tokens": continuations(3, [64]),
    "longer than a forward": (tokens(80, 1), tokens(80, 1)[:70] + tokens(9, 2), tokens(80, 1)[:33]),
    "all lengths": continuations(9, [1, 2, 5, 12]),
}


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("family", list(MODELS))
def test_candidates_have_their_own_log_probabilities(family: str, shape: str, isolated: bool) -> None:
    reader = READERS[family]
    prefix = tokens(50, 1)
    pass_ = Pass(prefix + tokens(11, 2), candidates=SHAPES[shape])
    scores, *_ = read_work(reader, [pass_], (prefix,), isolated=isolated)
    assert_right(reader, MODELS[family], pass_, scores[0])


@pytest.mark.parametrize("family", list(tiny_models.FAMILIES))
def test_candidates_of_every_family(family: str) -> None:
    model = tiny_models.family(family, VOCABULARY)
    reader = storing(model)
    prefix = tokens(40, 3)
    pass_ = Pass(prefix + tokens(5, 2), candidates=continuations(6, [1, 3, 20]))
    scores, *_ = read_work(reader, [pass_], (prefix,))
    assert_right(reader, model, pass_, scores[0])


FEW = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5).map(tuple), min_size=1, max_size=8)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 70), st.integers(1, 70), FEW.map(tuple), st.sampled_from(list(MODELS)), st.booleans())
def test_any_candidates_behind_any_question(
    before: int, question: int, candidates: tuple[tuple[int, ...], ...], family: str, isolated: bool
) -> None:
    reader = READERS[family]
    prefix = tokens(before, 4)
    pass_ = Pass(prefix + tokens(question, 5), candidates=candidates)
    scores, *_ = read_work(reader, [pass_], (prefix,), isolated=isolated)
    assert_right(reader, MODELS[family], pass_, scores[0])


def test_255_candidates() -> None:
    reader = READERS["llama"]
    prefix = tokens(50, 1)
    pass_ = Pass(prefix + tokens(11, 2), candidates=continuations(255, [1, 2, 3, 4]))
    scores, tally, _ = read_work(reader, [pass_], (prefix,))
    assert_right(reader, LLAMA, pass_, scores[0])
    # By many at once: 32 tokens a forward.
    assert tally.forwards < 255 / 8


@pytest.mark.parametrize("family", list(MODELS))
def test_the_question_runs_once(family: str) -> None:
    reader = READERS[family]
    prefix, question = tokens(20, 60), tokens(9, 7)
    candidates = tuple((first, 5, 6) for first in range(10))
    _, tally, steps = read_work(reader, [Pass(prefix + question, candidates=candidates)], (prefix,))
    assert tally.input_tokens == 20 + 9 + 10 * 2
    # Prefix and question, then 20 tokens side by side, or row by row where none can share a forward.
    assert tally.forwards == 2 + (1 if reader.shares_forwards else 10)
    assert [len(step) for step in steps] == [0] * (tally.forwards - 1) + [1]


def test_candidates_of_one_token_need_no_more_than_the_question() -> None:
    prefix = tokens(20, 6)
    pass_ = Pass(prefix + tokens(9, 7), candidates=tuple((token,) for token in range(40)))
    scores, tally, _ = read_work(storing(LLAMA), [pass_], (prefix,))
    assert (tally.forwards, tally.input_tokens) == (2, 29)
    assert scores[0].forwards == (1,)


def test_isolated_runs_one_row_a_forward() -> None:
    prefix = tokens(20, 6)
    candidates = tuple((first, 5, 6) for first in range(4))
    _, tally, _ = read_work(
        storing(LLAMA), [Pass(prefix + tokens(9, 7), candidates=candidates)], (prefix,), isolated=True
    )
    assert tally.forwards == 2 + 4


def test_labels_and_candidates_in_a_round() -> None:
    reader = storing(LLAMA)
    prefix = tokens(40, 8)
    passes = [
        Pass(prefix + tokens(5, 1), candidates=((7, 8), (9,))),
        Pass(prefix + tokens(6, 2), LABELS[:3]),
        # Its question is longer than two forwards, and behind no prefix.
        Pass(tokens(77, 9), candidates=((7, 8), (9, 10, 11))),
        Pass(prefix + tokens(70, 3), candidates=((7, 8), (9,))),
        Pass(prefix + tokens(7, 4), LABELS[:3]),
        Pass(prefix + tokens(5, 1), candidates=((7, 8), (9,))),
    ]
    scores, tally, _ = read_work(reader, passes, (prefix,))
    for index in (0, 2, 3):
        assert_right(reader, LLAMA, passes[index], scores[index])
    assert scores[0] == scores[5]
    assert tally.input_tokens == 40 + 6 + 7 + (5 + 1) + (70 + 1) + (77 + 1 + 2)
    spans = [scores[index].forwards for index in (0, 2, 3)]
    assert not set(spans[0]) & set(spans[1]) and not set(spans[1]) & set(spans[2])


@pytest.mark.parametrize("family", list(MODELS))
def test_bits_do_not_depend_on_others_nor_on_the_store(family: str) -> None:
    model = MODELS[family]
    prefix = tokens(70, 10)
    passes = [Pass(prefix + tokens(9, seed), candidates=continuations(6, [1, 4, 9])) for seed in range(3)]
    reader = storing(model)
    together, *_ = read_work(reader, passes, (prefix,))
    warm, tally, _ = read_work(reader, passes, (prefix,))
    assert values(warm) == values(together)
    assert tally.cached_tokens == (70 if reader.shares_forwards else 0)
    for index, pass_ in enumerate(passes):
        by_itself, *_ = read_work(storing(model), [pass_], (prefix,))
        assert values(by_itself)[0] == values(together)[index]


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
@pytest.mark.parametrize("bits", [None, 8])
def test_the_whole_vocabulary_has_all_probability(dtype: Any, bits: int | None) -> None:
    model = tiny_models.family("qwen3", VOCABULARY)
    model.set_dtype(dtype)
    if bits:
        nn.quantize(model, group_size=32, bits=bits)
    pass_ = Pass(tokens(20, 11), candidates=tuple((token,) for token in range(VOCABULARY)))
    scores, *_ = read_work(Reader(model, LABELS[:8]), [pass_])
    # Though a half-precision head rounds its logits.
    assert sum(np.exp(scores[0].values)) == pytest.approx(1.0, abs=1e-5)
    independent, *_ = read_work(Reader(model, LABELS[:8]), [pass_], independent=True)
    assert scores[0].values == pytest.approx(independent[0].values, abs=1e-4 if dtype == mx.float32 else 0.2)


def test_what_is_not_finite_stays_visible() -> None:
    model = tiny_models.family("llama", VOCABULARY, tie_word_embeddings=False)
    weight = np.array(model.model.embed_tokens.weight)
    weight[3] = np.nan
    model.model.embed_tokens.weight = mx.array(weight)
    pass_ = Pass(tokens(9, 12), candidates=((3, 4), (5,)))
    assert 3 not in pass_.tokens
    for independent in (False, True):
        scores, *_ = read_work(Reader(model, LABELS[:8]), [pass_], independent=independent)
        assert [np.isfinite(value) for value in scores[0].values] == [False, True]
        assert not scores[0].finite


@pytest.mark.parametrize("family", ["llama", "qwen3_5"])
def test_requests_in_turns_give_the_bits_of_each_alone(family: str) -> None:
    model = MODELS[family]
    prefix = tokens(70, 13)
    requests = [
        [
            Pass(prefix + tokens(9, seed), candidates=continuations(5, [2, 40])),
            Pass(prefix + tokens(8, seed), LABELS[:3]),
        ]
        for seed in range(3)
    ]
    expected = [values(read_work(storing(model), passes, (prefix,))[0]) for passes in requests]
    reader = storing(model)
    rounds = [Once(passes) for passes in requests]
    runs = [alone(reader.read(Work((prefix,), each), Tally())) for each in rounds]
    while runs:
        runs = [run for run in runs if next(run, None) is not None]
    assert [values(each.scores) for each in rounds] == expected
