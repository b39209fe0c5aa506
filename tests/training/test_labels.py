"""Every answer that can be worked out a second time comes out the same, and is the only one."""

import json
import operator
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from training import domains
from training.case import Asked, Case
from training.domain import Topic
from training.facts import Facts

_COMPARE = {"is": operator.eq, "over": operator.gt, "under": operator.lt}


def true(claim: tuple[Any, ...], facts: Facts) -> bool:
    """A claim's truth, written anew."""
    kind, *rest = claim
    if kind in _COMPARE:
        return bool(_COMPARE[kind](facts[rest[0]], rest[1]))
    if kind == "count":
        return bool([true(each, facts) for each in rest[1:]].count(True) == rest[0])
    truths = [true(each, facts) for each in rest]
    if kind == "not":
        return not truths[0]
    return all(truths) if kind == "all" else any(truths)


def right_place(asked: Asked) -> int:
    if isinstance(asked.criteria, Mapping) and asked.kind == "choice":
        return list(asked.criteria).index(str(asked.expected))
    return int(asked.expected)


def test_exactly_one_option_follows_from_the_facts(made: list[Case]) -> None:
    checked: Counter[str] = Counter()
    for case in made:
        for asked in case.asked:
            if asked.proof is None:
                continue
            checked[asked.form] += 1
            truths = [true(claim, asked.proof.facts) for claim in asked.proof.claims]
            if asked.kind == "noul":
                assert truths == [asked.expected], case.id
            else:
                assert asked.criteria is not None
                assert len(truths) == len(asked.criteria)
                assert truths.count(True) == 1, (case.id, asked.form)
                assert truths[right_place(asked)], (case.id, asked.form)
    assert len(checked) >= 17
    assert sum(checked.values()) >= 2500


def test_the_facts_stand_in_the_state(made: list[Case]) -> None:
    """Numbers and categories of a proof about one record are to be read in its state."""
    for case in made:
        record = domains.load(case.domain).record
        for asked in case.asked:
            if asked.proof is None or record is None or asked.form in _ROSTER_FORMS:
                continue
            text = case.state if isinstance(case.state, str) else json.dumps(case.state, ensure_ascii=False)
            facts = {each.key: each for each in record.facts}
            for key, value in asked.proof.facts.items():
                if not isinstance(value, bool):
                    shown = {facts[key].shown(value), str(facts[key].plain(value))}
                    assert any(each in text for each in shown), (case.id, key, value)


_ROSTER_FORMS = {"extreme", "only one", "count", "compare", "of one", "value of one"}


def subject(case: Case, topics: tuple[Topic, ...]) -> list[Topic]:
    """The topics whose texts stand in the state, leaving out what it quotes."""
    text = case.state if isinstance(case.state, str) else " ".join(map(str, case.state.values()))
    text = re.sub(r'(Answered already, from last month|From another [^:]*): ".*?"(?=$|\s)', "", text)
    return [topic for topic in topics if any(line in text for line in topic.lines)]


def test_the_topic_chosen_is_the_one_whose_text_is_there(made: list[Case]) -> None:
    checked = 0
    for case in made:
        for asked in case.asked:
            if asked.form not in ("which topic", "across", "summed up", "routed"):
                continue
            assert isinstance(asked.criteria, Mapping)
            groups = [subject(case, group.topics) for group in domains.load(case.domain).topics]
            [topic] = [topic for found in groups for topic in found]
            words = {plain(word) for word in (*topic.names, topic.meaning, topic.clause)}
            matching = [
                name
                for name, meaning in asked.criteria.items()
                if plain(name) in words or plain(meaning or "") in words
            ]
            if asked.form == "routed":
                assert asked.instructions is not None
                assert f"{topic.about}: {asked.expected}" in asked.instructions
            elif matching:
                assert matching == [asked.expected], case.id
            else:
                # None of the topics offered is the text's.
                assert asked.form == "which topic"
                assert asked.expected == list(asked.criteria)[right_place(asked)]
            checked += 1
    assert checked >= 700


def test_a_predicate_about_a_topic_agrees_with_the_text(made: list[Case]) -> None:
    checked = 0
    for case in made:
        for asked in case.asked:
            if asked.form != "is about" or asked.criteria is None:
                continue
            assert isinstance(asked.criteria, Mapping)
            groups = domains.load(case.domain).topics
            [topic] = [topic for group in groups for topic in subject(case, group.topics)]
            assert (asked.criteria["true"] == topic.meaning) == asked.expected
            checked += 1
    assert checked >= 60


def plain(text: str) -> str:
    return re.sub(r"[_-]", " ", text.lower())


def test_options_read_differently(made: list[Case]) -> None:
    for case in made:
        for asked in case.asked:
            if asked.kind == "choice":
                assert isinstance(asked.criteria, Mapping)
                assert len({plain(name) for name in asked.criteria}) == len(asked.criteria)
                meanings = [meaning for meaning in asked.criteria.values() if meaning is not None]
                assert len(set(meanings)) == len(meanings)
            elif asked.kind == "score":
                assert asked.criteria is not None
                assert len(set(asked.criteria)) == len(asked.criteria)
