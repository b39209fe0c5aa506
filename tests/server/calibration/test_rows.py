"""Scored rows: exactly what serving computes, for any temperature."""

import math

import numpy as np
import pytest
import scripted
from hypothesis import given
from hypothesis import strategies as st

from dicast_server.calibration.blocks import Constants, label_losses, log_probabilities, pack
from dicast_server.calibration.blocks import probabilities_under as probabilities
from dicast_server.calibration.kinds import Kind, band_of
from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.calibration.offset import shifted
from dicast_server.calibration.rows import NotUsable, ScoredRow, collect, scored_row
from dicast_server.calibration.table import Entry, Table
from dicast_server.decisions.answers import ChoiceAnswer, PassDiagnostics, PredicateAnswer
from dicast_server.decisions.questions import Choice, Option, Predicate, Question, QuestionType
from dicast_server.readouts.candidates import Candidates, CandidatesSettings
from dicast_server.readouts.letters import Letters, LettersSettings
from dicast_server.readouts.profile import OPENJEV, STOCK, Profile
from dicast_server.readouts.scores import softmax

CONSTANTS = {
    profile.name: Constants(profile.temperature or 1.0, profile.predicate_slope, profile.predicate_clamp)
    for profile in (STOCK, OPENJEV)
}


def labelled(type_: QuestionType, label: int = 0) -> LabelledQuestion:
    return LabelledQuestion("a", "g", 7, "state", Question(0, "a", None, "which?", type_), label)


def choice(options: int) -> Choice:
    return Choice(tuple(Option(f"option {index}") for index in range(options)))


def served(row: ScoredRow, temperature: float, offset: float = 0.0, name: str = "stock") -> tuple[float, ...]:
    table = Table(1.0, (Entry(None, None, temperature, offset, 0),))
    return probabilities(pack([row]), table, CONSTANTS[name], 1)[0]


@pytest.mark.parametrize("profile", [STOCK, OPENJEV])
@pytest.mark.parametrize("type_", [Predicate(), choice(5)])
@pytest.mark.parametrize(("orders", "correct"), [(1, False), (4, False), (3, True)])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_a_row_gives_the_probabilities_of_letters(
    profile: Profile, type_: QuestionType, orders: int, correct: bool, temperature: float
) -> None:
    question = labelled(type_)
    readout = Letters("state", scripted.model(profile), LettersSettings(correct_prior=correct))
    plan = scripted.planned(readout, question.question, profile, temperature, orders)
    (answer,) = scripted.decide([plan]).answers
    row = scored_row(question, scripted.diagnostics(answer).passes)
    assert len(row.scores) == orders
    found = served(row, temperature, name=profile.name)
    if isinstance(answer.kind, PredicateAnswer):
        assert found[0] == pytest.approx(answer.kind.probability, abs=1e-12)
    else:
        assert isinstance(answer.kind, ChoiceAnswer)
        assert found == pytest.approx(answer.kind.probabilities, abs=1e-12)


@pytest.mark.parametrize("normalize", [False, True])
def test_a_row_gives_the_probabilities_of_candidates(normalize: bool) -> None:
    question = labelled(choice(3))
    model = scripted.model(STOCK, single=lambda text: False)
    readout = Candidates("state", model, CandidatesSettings(None, normalize, correct_prior=True))
    (answer,) = scripted.decide([scripted.planned(readout, question.question, STOCK, 2.0, 2)]).answers
    row = scored_row(question, scripted.diagnostics(answer).passes, length_normalized=normalize)
    assert isinstance(answer.kind, ChoiceAnswer)
    assert served(row, 2.0) == pytest.approx(answer.kind.probabilities, abs=1e-12)


def test_rows_that_no_temperature_can_be_tried_on_are_left_out_with_a_reason() -> None:
    readout = Letters("state", scripted.model(STOCK), LettersSettings())
    (answer,) = scripted.decide([scripted.planned(readout, labelled(choice(60)).question, STOCK)]).answers
    chunks = scripted.diagnostics(answer).passes
    whole = PassDiagnostics((1, 0), (2.0, 1.0), (), prior=False)
    prior = PassDiagnostics((0, 1), (2.0, 1.0), (), prior=True)
    infinite = PassDiagnostics((0, 1), (math.inf, 1.0), (), prior=False)
    cases = [
        (labelled(choice(60)), chunks, "read in chunks"),
        (labelled(choice(2)), (), "has no scores"),
        (labelled(choice(2)), (whole, prior), "priors of other passes"),
        (labelled(choice(2)), (infinite,), "not finite"),
        (labelled(choice(3)), (whole,), "read in chunks"),
    ]
    for question, passes, reason in cases:
        with pytest.raises(NotUsable, match=reason):
            scored_row(question, passes)
    found = collect([(labelled(choice(2)), (whole,)), *((q, p) for q, p, _ in cases)])
    assert [row.scores for row in found.rows] == [((1.0, 2.0),)]
    assert [(each.id, each.line) for each in found.left_out] == [("a", 7)] * 5
    with pytest.raises(ValueError, match="label 2"):
        ScoredRow("choice", "g", "a", 2, ((1.0, 2.0),))


EXTREME = st.floats(-1e4, 1e4)
KIND = st.sampled_from(["predicate", "choice", "score"])


def scores_of(options: int) -> st.SearchStrategy[tuple[tuple[float, ...], ...]]:
    one = st.lists(EXTREME, min_size=options, max_size=options).map(tuple)
    return st.lists(one, min_size=1, max_size=3).map(tuple)


@given(KIND, st.data(), st.floats(0.05, 20.0), st.floats(-10.0, 10.0), st.sampled_from(["stock", "openjev"]))
def test_nothing_is_nan_and_probabilities_sum_to_one(
    kind: Kind, data: st.DataObject, temperature: float, offset: float, name: str
) -> None:
    options = 2 if kind == "predicate" else data.draw(st.sampled_from([2, 3, 40, 255]))
    row = ScoredRow(kind, "g", "a", 0, data.draw(scores_of(options)))
    (block,) = pack([row])
    logs = log_probabilities(block, temperature, offset, CONSTANTS[name])
    assert np.isfinite(logs).all()
    assert np.isfinite(label_losses(logs, block.labels)).all()
    found = served(row, temperature, offset, name)
    assert math.fsum(found) == pytest.approx(1.0, abs=1e-12)
    assert all(0.0 <= p <= 1.0 for p in found)


@given(st.lists(EXTREME, min_size=2, max_size=30), st.floats(0.05, 20.0))
def test_a_temperature_never_changes_the_ranking(scores: list[float], temperature: float) -> None:
    found = served(ScoredRow("choice", "g", "a", 0, (tuple(scores),)), temperature)
    for (before, p), (after, q) in zip(
        sorted(zip(scores, found, strict=True)), sorted(zip(scores, found, strict=True))[1:], strict=False
    ):
        assert p <= q
        assert before < after or p == q


@given(st.lists(st.floats(-50, 50), min_size=2, max_size=20), st.floats(0.05, 20.0), st.floats(-1e3, 1e3))
def test_what_all_scores_have_in_common_means_nothing(
    scores: list[float], temperature: float, shift: float
) -> None:
    row = ScoredRow("choice", "g", "a", 0, (tuple(scores),))
    moved = ScoredRow("choice", "g", "a", 0, (tuple(score + shift for score in scores),))
    assert served(row, temperature) == pytest.approx(served(moved, temperature), abs=1e-9)
    assert served(row, temperature) == pytest.approx(softmax(scores, temperature), abs=1e-12)


def test_a_higher_temperature_is_flatter() -> None:
    row = ScoredRow("choice", "g", "a", 0, ((2.0, 0.0),))
    assert served(row, 2.0)[0] < served(row, 1.0)[0] < served(row, 0.5)[0]
    assert served(ScoredRow("choice", "g", "a", 0, ((3.0,) * 255,)), 0.05) == pytest.approx(
        (1 / 255,) * 255, abs=1e-15
    )


@given(st.floats(-700, 700), st.floats(-10, 10), st.floats(0.5, 20.0))
def test_the_offset_of_one_answer_is_that_of_many(score: float, offset: float, temperature: float) -> None:
    row = ScoredRow("predicate", "g", "a", 0, ((score, 0.0),))
    plain = softmax((score, 0.0), temperature)[0]
    assert shifted(plain, offset) == pytest.approx(served(row, temperature, offset)[0], abs=1e-9)
    assert 0.0 <= shifted(plain, offset) <= 1.0
    assert shifted(plain, 0.0) == plain


def test_bands_cover_every_number_of_options_once() -> None:
    assert [band_of(n) for n in (2, 3, 4, 5, 8, 9, 16, 17, 52, 53, 255)] == [
        (2, 2),
        (3, 4),
        (3, 4),
        (5, 8),
        (5, 8),
        (9, 16),
        (9, 16),
        (17, 52),
        (17, 52),
        (53, 255),
        (53, 255),
    ]
    for outside in (1, 256):
        with pytest.raises(ValueError, match="2 to 255"):
            band_of(outside)
