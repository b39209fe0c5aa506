"""Both ways to learn: one by hand in NumPy, one by MLX's own gradients, and the engine beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny_models
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx.utils import tree_flatten
from reading import read as read_passes

from dicast_server.decisions.passes import Pass
from dicast_server.engine.learning import dense as dense_module
from dicast_server.engine.learning.dense import DenseLearner
from dicast_server.engine.learning.learner import CannotLearn, learner_of, shapes
from dicast_server.engine.learning.lesson import Example, Lesson
from dicast_server.engine.learning.mlx_learner import MlxLearner
from dicast_server.engine.reader import Reader

SCALE, LAYERS, RANK = 1.5, 2, 3
DENSE = ("llama", "qwen2", "qwen3")


def weights(model: Any, layers: int, seed: int = 0) -> dict[str, Any]:
    """Low-rank weights that do change something."""
    rng = np.random.default_rng(seed)
    found = {}
    for path, (into, out) in shapes(model, layers).items():
        found[f"{path}.lora_a"] = rng.normal(0, 0.2, (into, RANK)).astype(np.float32)
        found[f"{path}.lora_b"] = rng.normal(0, 0.2, (RANK, out)).astype(np.float32)
    return found


def lessons(count: int, seed: int = 1) -> list[Lesson]:
    rng = np.random.default_rng(seed)

    def ids(length: int) -> tuple[int, ...]:
        return tuple(map(int, rng.integers(5, 120, length)))

    return [
        Lesson(
            ids(int(rng.integers(3, 12))),
            tuple(
                Example(ids(int(rng.integers(2, 9))), (7, 8, 9)[: 2 + place % 2], place % 2)
                for place in range(int(rng.integers(1, 4)))
            ),
        )
        for _ in range(count)
    ]


def dense(model: Any, layers: int = LAYERS, threads: int = 2, kept: int = 1 << 20) -> DenseLearner:
    return DenseLearner(model, layers, SCALE, threads, kept)


def by_mlx(model: Any, layers: int = LAYERS) -> MlxLearner:
    return MlxLearner(model, list(shapes(model, layers)), SCALE)


@pytest.mark.parametrize("family", DENSE)
@pytest.mark.parametrize("layers", [1, 2])
def test_gradients_by_hand_are_those_of_mlx(family: str, layers: int) -> None:
    model = tiny_models.family(family)
    learned, given_ = weights(model, layers), lessons(3)
    reads, gradients = dense(model, layers).learn(given_, learned)
    others, expected = by_mlx(model, layers).learn(given_, learned)
    assert gradients.keys() == expected.keys() == learned.keys()
    for one, other in zip(reads, others, strict=True):
        np.testing.assert_allclose(one.log_probabilities, other.log_probabilities, atol=1e-4)
        assert abs(one.mass - other.mass) < 1e-4
    for name, gradient in gradients.items():
        largest = np.abs(expected[name]).max()
        assert largest > 0
        np.testing.assert_allclose(gradient, expected[name], atol=1e-4 * max(1.0, largest), err_msg=name)


@pytest.mark.parametrize("family", ["gemma3_text", "qwen3_moe", "mamba2", "qwen3_5", "gpt_oss"])
def test_other_families_learn_by_mlx(family: str) -> None:
    model = tiny_models.family(family)
    learner = learner_of(model, 1, SCALE, 1, 0)
    assert isinstance(learner, MlxLearner)
    learned = weights(model, 1)
    (lesson,) = lessons(1)
    reads, gradients = learner.learn([lesson], learned)
    before = sum(read.loss(each.right) for read, each in zip(reads, lesson.examples, strict=True))
    moved = {name: each - 1e-2 * gradients[name] for name, each in learned.items()}
    after = learner.read([lesson], moved)
    assert sum(read.loss(each.right) for read, each in zip(after, lesson.examples, strict=True)) < before


@pytest.mark.parametrize("make", [dense, by_mlx])
def test_it_reads_what_the_engine_reads(make: Any) -> None:
    model = tiny_models.family("llama")
    given_ = lessons(3)
    still = {name: each * (not name.endswith("lora_b")) for name, each in weights(model, LAYERS).items()}
    reads = iter(make(model).read(given_, still))
    reader = Reader(model, [7, 8, 9], 32)
    for lesson in given_:
        for example in lesson.examples:
            pass_ = Pass((*lesson.prefix, *example.tail), example.labels)
            (scores,) = read_passes(reader, lesson.prefix, [pass_])[0].values()
            values = np.array(scores.values)
            found = next(reads)
            own = values - np.log(np.exp(values).sum())
            np.testing.assert_allclose(found.log_probabilities, own, atol=1e-4)
            assert abs(found.mass - scores.mass) < 1e-4


@given(st.integers(0, 1000))
@settings(max_examples=15)
def test_a_state_that_is_read_once_gives_what_its_questions_give_alone(seed: int) -> None:
    model = tiny_models.family("qwen3")
    learned, given_ = weights(model, LAYERS, seed), lessons(2, seed)
    alone = [Lesson(lesson.prefix, (example,)) for lesson in given_ for example in lesson.examples]
    together, sums = dense(model).learn(given_, learned)
    one_by_one, others = dense(model).learn(alone, learned)
    for one, other in zip(together, one_by_one, strict=True):
        np.testing.assert_allclose(one.log_probabilities, other.log_probabilities, atol=1e-4)
    for name, gradient in sums.items():
        np.testing.assert_allclose(gradient, others[name], atol=1e-3)


def test_threads_and_what_is_kept_change_no_bit() -> None:
    model = tiny_models.family("llama")
    learned, given_ = weights(model, 1), lessons(6)
    first, second = dense(model, 1, threads=1, kept=0), dense(model, 1, threads=2)
    expected = first.learn(given_, learned)
    for _ in range(2):
        reads, gradients = second.learn(given_, learned)
        assert all(np.array_equal(gradients[name], expected[1][name]) for name in gradients)
        assert [read.mass for read in reads] == [read.mass for read in expected[0]]


def test_a_long_lesson_is_run_again_on_the_way_back(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_models.family("qwen3")
    learned, given_ = weights(model, 2), lessons(3)
    reads, gradients = dense(model).learn(given_, learned)
    monkeypatch.setattr(dense_module, "KEPT_TOKENS", 1)
    others, again = dense(model).learn(given_, learned)
    assert all(np.array_equal(gradients[name], again[name]) for name in gradients)
    assert [read.mass for read in reads] == [read.mass for read in others]


def test_what_is_kept_is_bounded() -> None:
    model = tiny_models.family("llama")
    given_ = lessons(6)
    room = given_[0].size * 64 * 4
    learner = dense(model, 1, kept=room)
    learner.read(given_, weights(model, 1))
    assert 0 < learner.kept_bytes <= room


def test_the_base_stays_as_it_is() -> None:
    model = tiny_models.family("llama")
    before = {name: np.array(value) for name, value in tree_flatten(model.parameters())}
    for learner in (dense(model), by_mlx(model)):
        learner.learn(lessons(2), weights(model, LAYERS))
        after = dict(tree_flatten(model.parameters()))
        assert after.keys() == before.keys()
        assert all(np.array_equal(after[name], value) for name, value in before.items())


def test_what_has_no_linear_layers_cannot_learn() -> None:
    model = tiny_models.family("llama")
    with pytest.raises(CannotLearn, match="no linear layers"):
        learner_of(model, 0, SCALE, 1, 0)
