"""The loss of labels, its gradient, and what a lesson is."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dicast_server.engine.learning.lesson import Example, Lesson
from dicast_server.engine.learning.reading import gradient, read


@given(st.integers(0, 10_000), st.integers(2, 6))
def test_the_gradient_is_that_of_the_loss(seed: int, labels: int) -> None:
    rng = np.random.default_rng(seed)
    ids = tuple(map(int, rng.choice(12, labels, replace=False)))
    example = Example((1,), ids, int(rng.integers(labels)))
    logits = rng.normal(0, 2, (1, 12))
    slopes = gradient(logits.astype(np.float32), [example])[0]
    for place in range(12):
        step = np.zeros_like(logits)
        step[0, place] = 1e-4
        up, down = (
            read(moved, [example])[0].loss(example.right)  # type: ignore[arg-type] # float64 on purpose
            for moved in (logits + step, logits - step)
        )
        assert abs((up - down) / 2e-4 - slopes[place]) < 1e-4


@given(st.integers(0, 10_000))
def test_what_is_read_are_shares_of_the_labels_and_of_everything(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, (1, 9)).astype(np.float32)
    (found,) = read(logits, [Example((1,), (2, 5, 7), 0)])
    whole = np.exp(logits[0].astype(np.float64))
    whole /= whole.sum()
    assert np.isclose(np.exp(found.log_probabilities).sum(), 1.0)
    assert np.isclose(found.mass, whole[[2, 5, 7]].sum())
    assert np.allclose(np.exp(found.log_probabilities) * found.mass, whole[[2, 5, 7]])


def test_extreme_scores_leave_numbers() -> None:
    logits = np.array([[1e4, -1e4, 0.0]], np.float32)
    (found,) = read(logits, [Example((1,), (1, 2), 0)])
    assert np.isfinite(found.log_probabilities).all()
    assert np.isfinite(gradient(logits, [Example((1,), (1, 2), 0)])).all()


def test_tails_see_the_prefix_and_themselves() -> None:
    lesson = Lesson((9, 9), (Example((1, 2), (3, 4), 0), Example((5,), (3, 4), 1)))
    assert lesson.tokens == (9, 9, 1, 2, 5)
    assert lesson.places.tolist() == [0, 1, 2, 3, 2]
    assert lesson.ends.tolist() == [3, 4]
    seen = np.isfinite(lesson.mask).astype(int).tolist()
    assert seen == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 0, 0, 1]]
