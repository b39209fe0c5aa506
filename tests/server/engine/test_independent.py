"""The reference path: whole prompts through the model itself, and nothing of the way that is fast."""

from typing import Any

import numpy as np
import pytest
import tiny_models
from reading import (
    LABELS,
    VOCABULARY,
    WithOddCaches,
    log_probabilities,
    passes_over,
    read,
    read_work,
    storing,
    tokens,
)

from dicast_server.decisions.passes import Pass
from dicast_server.engine.cpu_trunk import CpuTrunk
from dicast_server.engine.head import Head
from dicast_server.engine.layers import AttentionView, RecurrentView
from dicast_server.engine.prefix import OpaquePrefix
from dicast_server.engine.store import PrefixStore

PREFIX = tokens(90, 1)
PASSES = [
    *passes_over(PREFIX, [3, 40, 9]),
    Pass(tokens(12, 2), LABELS[:3], kept=True),
    Pass(PREFIX + tokens(5, 3), candidates=((7,), (7, 8, 9), tokens(70, 4))),
]


@pytest.mark.parametrize("family", list(tiny_models.FAMILIES))
def test_both_paths_agree(family: str) -> None:
    model = tiny_models.family(family, VOCABULARY)
    reader = storing(model)
    fast, *_ = read(reader, PREFIX, PASSES)
    independent, *_ = read_work(reader, PASSES, (PREFIX,), independent=True)
    for index, pass_ in enumerate(PASSES):
        ours, theirs = np.array(fast[index].values), np.array(independent[index].values)
        if pass_.labels:
            # Logits, of which the differences count.
            ours, theirs = ours - ours[0], theirs - theirs[0]
        assert ours == pytest.approx(theirs, abs=1e-4)
        assert fast[index].mass == pytest.approx(independent[index].mass, abs=1e-4)


def test_scores_are_those_of_the_models_own_logits() -> None:
    model = tiny_models.family("llama", VOCABULARY)
    scores, *_ = read_work(storing(model), PASSES, (PREFIX,), independent=True)
    for index, pass_ in enumerate(PASSES[:4]):
        logits = tiny_models.logits(model, list(pass_.tokens))[-1]
        assert scores[index].values == pytest.approx([logits[label] for label in pass_.labels], abs=1e-6)
        assert scores[index].mass == pytest.approx(log_probabilities(model, pass_)[1], abs=1e-6)


def test_it_takes_nothing_from_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = storing(tiny_models.family("llama", VOCABULARY))
    expected, *_ = read_work(reader, PASSES, (PREFIX,), independent=True)
    read(reader, PREFIX, PASSES)

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("not on this path")

    for owner, name in (
        (Head, "forward"),
        (Head, "read"),
        (Head, "log_probabilities"),
        (CpuTrunk, "__call__"),
        (AttentionView, "__init__"),
        (RecurrentView, "__init__"),
        (OpaquePrefix, "caches"),
        (PrefixStore, "chain"),
    ):
        monkeypatch.setattr(owner, name, fail)
    scores, tally, _ = read_work(reader, PASSES, (PREFIX,), independent=True)
    assert scores == expected
    assert tally.cached_tokens == 0


@pytest.mark.parametrize("odd", [False, True])
def test_all_tokens_count_and_each_step_is_a_forward(odd: bool) -> None:
    model = tiny_models.family("llama", VOCABULARY)
    reader = storing(WithOddCaches(model) if odd else model)
    scores, tally, steps = read_work(reader, [*PASSES, PASSES[0]], (PREFIX,), independent=True)
    prompts = [len(pass_.tokens) for pass_ in PASSES]
    assert tally.input_tokens == sum(prompts[:4]) + 3 * prompts[4] + 0 + 2 + 69
    assert tally.forwards == 4 + 3
    # The first two are of two passes that are alike, the last of three candidates.
    assert steps == [[0, 5], [1], [2], [3], [], [], [4]]
    assert [scores[index].forwards for index in range(5)] == [(0,), (1,), (2,), (3,), (4, 5, 6)]
