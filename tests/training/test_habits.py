"""Who reads the question and never the state must guess: fitted on one half, judged on the other."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from statistics import mean

from training.case import Case


def words(text: str) -> list[str]:
    return sorted(set(re.findall(r"[a-z]+", text.lower())))


def halves(made: list[Case]) -> tuple[list[Case], list[Case]]:
    return made[::2], made[1::2]


def texts(criteria: object) -> list[str]:
    assert isinstance(criteria, Mapping)
    return [f"{name} {meaning or ''}" for name, meaning in criteria.items()]


def test_options_alone_do_not_give_a_choice_away(made: list[Case]) -> None:
    fitted, judged = halves(made)
    won: Counter[str] = Counter()
    fair: Counter[str] = Counter()
    for case in fitted:
        for asked in case.asked:
            if asked.kind == "choice":
                assert isinstance(asked.criteria, Mapping)
                for name, text in zip(asked.criteria, texts(asked.criteria), strict=True):
                    for word in words(text):
                        won[word] += name == asked.expected
                        fair[word] += 1
    hits, chance = [], []
    for case in judged:
        for asked in case.asked:
            if asked.kind == "choice":
                assert isinstance(asked.criteria, Mapping)
                scores = [
                    sum(math.log((won[word] + 1) / (fair[word] + 4)) for word in words(text))
                    / max(1, len(words(text)))
                    for text in texts(asked.criteria)
                ]
                best = list(asked.criteria)[scores.index(max(scores))]
                hits.append(best == asked.expected)
                chance.append(1 / len(scores))
    assert mean(hits) < mean(chance) + 0.06


def test_the_question_alone_does_not_give_a_predicate_away(made: list[Case]) -> None:
    fitted, judged = halves(made)
    counts: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for case in fitted:
        for asked in case.asked:
            if asked.kind == "noul":
                counts[bool(asked.expected)].update(words(_whole(asked.instructions, asked.criteria)))
    hits = []
    for case in judged:
        for asked in case.asked:
            if asked.kind == "noul":
                score = sum(
                    math.log((counts[True][word] + 1) / (counts[False][word] + 1))
                    for word in words(_whole(asked.instructions, asked.criteria))
                )
                hits.append((score > 0) == asked.expected)
    assert 0.44 < mean(hits) < 0.58


def test_a_forms_usual_level_is_seldom_right(made: list[Case]) -> None:
    fitted, judged = halves(made)
    usual: dict[tuple[str, int], Counter[int]] = {}
    for case in fitted:
        for asked in case.asked:
            if asked.kind == "score":
                key = (asked.form, len(asked.criteria or ()))
                usual.setdefault(key, Counter())[int(asked.expected)] += 1
    hits, chance = [], []
    for case in judged:
        for asked in case.asked:
            key = (asked.form, len(asked.criteria or ()))
            if asked.kind == "score" and key in usual:
                hits.append(usual[key].most_common(1)[0][0] == asked.expected)
                chance.append(1 / key[1])
    assert mean(hits) < mean(chance) + 0.1


def _whole(instructions: str | None, criteria: object) -> str:
    sides = (
        " ".join(f"{side} {text}" for side, text in criteria.items()) if isinstance(criteria, Mapping) else ""
    )
    return f"{instructions or ''} {sides}"
