"""The built-in probe set: its balance, and what its loader refuses."""

import json
from collections import Counter
from typing import Any

import pytest

from dicast_server.decisions.questions import Choice, Json, Predicate, Score
from dicast_server.decisions.wording import Wording
from dicast_server.profiling.probes import ProbeSet
from dicast_server.readouts.texts import option_lines


@pytest.fixture(scope="module")
def probe_set() -> ProbeSet:
    return ProbeSet.built_in()


def test_every_type_has_as_many_questions_and_every_answer_its_share(probe_set: ProbeSet) -> None:
    answers = Counter(
        (type(each.question.type), each.question.options, each.right) for each in probe_set.labelled
    )
    shares: dict[tuple[type, int, int], int] = {
        **{(Predicate, 2, right): 12 for right in range(2)},
        **{(kind, 3, right): 4 for kind in (Choice, Score) for right in range(3)},
        **{(kind, 4, right): 3 for kind in (Choice, Score) for right in range(4)},
    }
    assert answers == shares


def test_states_are_short_all_different_and_of_both_kinds(probe_set: ProbeSet) -> None:
    states = [probe.state for probe in probe_set.probes]
    kinds = Counter(isinstance(state, Json) for state in states)
    assert kinds == {False: 16, True: 8}
    assert len(set(map(repr, states))) == len(states)
    assert all(len(repr(state)) < 200 for state in states)


def test_one_question_of_each_type_is_asked_about_every_state(probe_set: ProbeSet) -> None:
    for probe in probe_set.probes:
        assert [type(each.question.type) for each in probe.questions] == [Predicate, Choice, Score]
        assert [each.question.index for each in probe.questions] == [0, 1, 2]


def test_names_and_levels_of_a_question_are_all_different(probe_set: ProbeSet) -> None:
    for each in probe_set.labelled:
        lines = option_lines(each.question, Wording.JSON)
        assert len(set(lines)) == len(lines)


def test_the_hash_is_of_what_is_said_and_not_of_how_it_is_laid_out() -> None:
    body = one({"type": "choice", "instructions": "Which?", "options": {"a": None, "b": "x"}, "answer": "b"})
    first = ProbeSet.from_json(json.dumps(body))
    assert ProbeSet.from_json(json.dumps(body, indent=3)).hash == first.hash
    turned = one(
        {"type": "choice", "instructions": "Which?", "options": {"b": "x", "a": None}, "answer": "b"}
    )
    second = ProbeSet.from_json(json.dumps(turned))
    assert second.hash != first.hash
    assert [first.labelled[0].right, second.labelled[0].right] == [1, 0]


@pytest.mark.parametrize(
    "question",
    [
        {"type": "choice", "instructions": "Which?", "options": {"a": None, "b": None}, "answer": "c"},
        {"type": "score", "instructions": "How?", "levels": ["low", "high"], "answer": 2},
        {"type": "score", "instructions": "How?", "levels": ["low", "high"], "answer": -1},
        {"type": "predicate", "instructions": "Is it?", "answer": "yes"},
        {"type": "predicate", "instructions": "Is it?", "answer": True, "option": 1},
        {"type": "guess", "instructions": "Is it?", "answer": True},
    ],
)
def test_a_question_without_a_right_answer_is_refused(question: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        ProbeSet.from_json(json.dumps(one(question)))


def one(question: dict[str, Any]) -> dict[str, Any]:
    return {"version": 1, "probes": [{"state": "The door is open.", "questions": [question]}]}
