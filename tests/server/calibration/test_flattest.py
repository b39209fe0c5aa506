"""Where all scores together say nothing: what is left is how often each label is right."""

from __future__ import annotations

from dataclasses import replace

import drawn
import numpy as np
import pytest

from dicast_server.calibration.blocks import Constants, pack, probabilities_under
from dicast_server.calibration.fit import fit
from dicast_server.calibration.judged import Judged
from dicast_server.calibration.kinds import Kind
from dicast_server.calibration.levels import FLATTEST, Scheme, fit_levels
from dicast_server.calibration.metrics import ece
from dicast_server.calibration.prediction import Prediction
from dicast_server.calibration.rows import ScoredRow
from dicast_server.calibration.verdicts import Verdict

CHOICES: tuple[tuple[Kind, int], ...] = (("choice", 3),)
PREDICATES: tuple[tuple[Kind, int], ...] = (("predicate", 2),)


def backwards(count: int, seed: int) -> list[ScoredRow]:
    """Predicates of which two in five are true, and those a little less likely than the others."""
    generator = np.random.default_rng(seed)
    rows = []
    for index in range(count):
        true = generator.random() < 0.4
        score = generator.normal(0.5 - 0.15 * true, 0.3)
        rows.append(ScoredRow("predicate", f"g{index}", f"p{index}", int(not true), ((score, 0.0),)))
    return rows


def test_where_all_scores_together_say_nothing_the_types_are_drawn_flat() -> None:
    noise = drawn.rows(800, 5, CHOICES, signal=0.0, spread=1.5)
    found = fit([*backwards(800, 1), *noise])
    # A prior around 1 would hold such predicates at 2 or 3, and each is still the wrong way round.
    assert found.table.of("predicate", 2).temperature == FLATTEST
    assert found.table.of("choice", 5).temperature == pytest.approx(FLATTEST, rel=0.1)
    assert "the temperature 20 is at the upper edge" in found.notes[0]
    assert {each.verdict for each in found.kinds} == {Verdict.NO_SIGNAL}
    # What is left is the share of true ones, and it holds on others.
    others = backwards(2000, 2)
    values = probabilities_under(pack(others), found.table, Constants(), len(others))
    said = [
        Prediction(row.id, row.group, row.kind, row.label, p) for row, p in zip(others, values, strict=True)
    ]
    assert ece(Judged.of(said)) < 0.05


def test_a_type_with_signal_keeps_it_beside_others_without() -> None:
    noise = drawn.rows(600, 5, CHOICES, signal=0.0, spread=6.0)
    good = [replace(row, id=f"p{row.id}") for row in drawn.rows(300, 6, PREDICATES, sharpened=2.0)]
    levels = fit_levels(pack([*noise, *good]), Constants())
    assert levels.root == ()
    assert levels.table(Scheme.KIND).of("predicate", 2).temperature == pytest.approx(2.0, rel=0.35)
