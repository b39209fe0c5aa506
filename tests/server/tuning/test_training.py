"""The training loop on a model of a few numbers: where it ends, how it goes on, what it keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.optimizers
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicast_server.engine.learning.lesson import Example, Lesson
from dicast_server.engine.learning.reading import Read, gradient, read
from dicast_server.tuning import checkpoint
from dicast_server.tuning.adam import Adam, clipped
from dicast_server.tuning.checkpoint import Checkpoint
from dicast_server.tuning.settings import Schedule
from dicast_server.tuning.training import Diverged, State, Stopped, Training, judged, started


class Table:
    """Scores of three labels by the state's token: softmax regression, which can be learned."""

    def learn(self, lessons: Sequence[Lesson], learned: Any) -> tuple[list[Read], dict[str, Any]]:
        by = np.zeros_like(learned["w"])
        reads: list[Read] = []
        for lesson in lessons:
            logits = np.repeat(learned["w"][lesson.prefix[0]][None], len(lesson.examples), 0)
            reads += read(logits, lesson.examples)
            by[lesson.prefix[0]] += gradient(logits, lesson.examples).sum(0)
        return reads, {"w": by}

    def read(self, lessons: Sequence[Lesson], learned: Any) -> list[Read]:
        return self.learn(lessons, learned)[0]


def lesson(token: int) -> Lesson:
    return Lesson((token,), (Example((1,), (0, 1, 2), token % 3),))


LESSONS = [lesson(token) for token in range(12)]


def training(**schedule: Any) -> Training:
    return Training(
        Table(),
        Schedule(**{"learning_rate": 0.1, "epochs": 5, "lessons": 2, **schedule}),
        lambda epoch: LESSONS,
        LESSONS,
    )


def start() -> State:
    return State.of({"w": np.zeros((12, 4), np.float32)})


def test_it_learns_and_keeps_the_best() -> None:
    state = training(epochs=20, patience=20).run(start())
    assert len(state.epochs) == 20
    losses = [epoch.held_out for epoch in state.epochs]
    assert losses[-1] < losses[0] < math.log(3)
    assert state.best_loss == min(losses)
    assert state.best_epoch == losses.index(min(losses)) + 1
    assert state.epochs[-1].accuracy == 1.0
    loss, _ = judged(Table().read(LESSONS, state.best), LESSONS)
    assert loss == state.best_loss


def test_the_start_stays_as_it_was() -> None:
    weights = {"w": np.zeros((12, 4), np.float32)}
    training().run(State.of(weights))
    assert not weights["w"].any()


def test_it_ends_where_nothing_gets_better() -> None:
    contrary = [
        Lesson(each.prefix, (Example((1,), (0, 1, 2), (each.examples[0].right + 1) % 3),)) for each in LESSONS
    ]
    state = Training(Table(), Schedule(0.1, 9, 2, 2), lambda epoch: LESSONS, contrary).run(start())
    assert len(state.epochs) == 2
    assert state.best_epoch == 0
    assert not state.best["w"].any()


@given(st.integers(0, 29))
def test_what_is_stopped_goes_on_to_the_same_bits(steps: int) -> None:
    whole = training(patience=9).run(start())
    done: list[int] = []
    state = start()
    with pytest.raises(Stopped):
        training(patience=9).run(state, told=done.append, stop=lambda: len(done) == steps)
    assert state.step == steps
    training(patience=9).run(state)
    assert np.array_equal(state.weights["w"], whole.weights["w"])
    assert np.array_equal(state.best["w"], whole.best["w"])
    assert state.epochs == whole.epochs


def test_it_goes_on_from_disk(tmp_path: Path) -> None:
    whole = training().run(start())
    checkpoint = Checkpoint(tmp_path / "new" / "t.npz", "digest")
    assert checkpoint.load() is None
    done: list[int] = []
    with pytest.raises(Stopped):
        training().run(start(), told=done.append, kept=checkpoint.save, stop=lambda: len(done) == 8)
    state = checkpoint.load()
    assert state is not None and state.step == 8
    training().run(state)
    assert np.array_equal(state.best["w"], whole.best["w"])
    assert Checkpoint(checkpoint.path, "another").load() is None
    checkpoint.remove()
    assert checkpoint.load() is None
    assert list((tmp_path / "new").iterdir()) == []


def test_a_checkpoint_of_another_format_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Checkpoint(tmp_path / "t.npz", "digest")
    monkeypatch.setattr(checkpoint, "_FORMAT", 0)
    kept.save(start())
    assert kept.load() is not None
    monkeypatch.undo()
    assert kept.load() is None


@pytest.mark.parametrize("left", [0, 1, 100, 400])
def test_a_checkpoint_that_is_cut_off_is_none(tmp_path: Path, left: int) -> None:
    checkpoint = Checkpoint(tmp_path / "t.npz", "digest")
    checkpoint.save(start())
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:left])
    assert checkpoint.load() is None


def test_the_last_checkpoint_stays_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = Checkpoint(tmp_path / "t.npz", "digest")
    state = start()
    state.step = 3
    checkpoint.save(state)

    def full(*args: Any, **more: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    state.step = 4
    with pytest.raises(OSError, match="No space"):
        checkpoint.save(state)
    kept = checkpoint.load()
    assert kept is not None and kept.step == 3
    assert [path.name for path in tmp_path.iterdir()] == ["t.npz"]


def test_what_is_not_finite_ends_it() -> None:
    state = start()
    state.weights["w"][:] = np.nan
    with pytest.raises(Diverged, match="step 1: a loss is not finite"):
        training().run(state)


def test_the_rate_rises_and_falls() -> None:
    schedule = Schedule(1.0)
    rates = [schedule.rate(step, 100) for step in range(1, 101)]
    assert rates[0] < 0.06
    assert max(rates) == pytest.approx(0.92, abs=0.03)
    assert rates[-1] == pytest.approx(0.1)
    assert rates[20:] == sorted(rates[20:], reverse=True)


@given(st.integers(0, 1000))
def test_adam_is_that_of_mlx(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ours = {"w": rng.normal(size=(3, 2)).astype(np.float32)}
    theirs = {"w": mx.array(ours["w"])}
    adam, other = Adam.of(ours), mlx.optimizers.Adam(0.01, betas=[0.9, 0.99], bias_correction=True)
    for _ in range(5):
        by = rng.normal(size=(3, 2)).astype(np.float32)
        adam.step(ours, {"w": by}, 0.01)
        theirs = other.apply_gradients({"w": mx.array(by)}, theirs)
    np.testing.assert_allclose(ours["w"], np.array(theirs["w"]), atol=1e-5)


def test_gradients_are_clipped_by_their_common_norm() -> None:
    given_ = {"a": np.array([3.0], np.float32), "b": np.array([4.0], np.float32)}
    assert {name: each.tolist() for name, each in clipped(given_, 10.0).items()} == {"a": [3.0], "b": [4.0]}
    halved = clipped(given_, 2.5)
    assert (halved["a"].item(), halved["b"].item()) == pytest.approx((1.5, 2.0))


def test_a_start_changes_nothing_and_depends_on_the_seed_alone() -> None:
    shapes = {"x": (8, 4), "y": (4, 8)}
    first, again, other = started(shapes, 3, 1), started(shapes, 3, 1), started(shapes, 3, 2)
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["x.lora_a"], other["x.lora_a"])
    assert first["x.lora_a"].shape == (8, 3) and first["x.lora_b"].shape == (3, 4)
    assert not first["x.lora_b"].any() and np.abs(first["x.lora_a"]).max() <= 1 / math.sqrt(8)
