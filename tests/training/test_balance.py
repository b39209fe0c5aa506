"""No answer wins by habit: not a side, not a position, not a level, not a name, not the state's words."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from statistics import mean

from dicast_server.calibration.labelled import MAX_OPTIONS
from training.case import Asked, Case


def asked(made: list[Case], kind: str) -> Iterator[tuple[Case, Asked]]:
    for case in made:
        for each in case.asked:
            if each.kind == kind:
                yield case, each


def choices(made: list[Case]) -> Iterator[tuple[Case, Asked, list[str], int]]:
    for case, each in asked(made, "choice"):
        assert isinstance(each.criteria, Mapping)
        names = list(each.criteria)
        yield case, each, names, names.index(str(each.expected))


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))


def state_words(case: Case) -> set[str]:
    return words(case.state if isinstance(case.state, str) else json.dumps(case.state))


def test_all_types_are_asked(made: list[Case]) -> None:
    kinds = Counter(each.kind for case in made for each in case.asked)
    total = sum(kinds.values())
    assert 0.38 <= kinds["choice"] / total <= 0.55
    assert 0.25 <= kinds["noul"] / total <= 0.4
    assert 0.15 <= kinds["score"] / total <= 0.3


def test_half_of_the_predicates_are_true(made: list[Case]) -> None:
    by_domain, by_form = defaultdict(list), defaultdict(list)
    for case, each in asked(made, "noul"):
        by_domain[case.domain].append(bool(each.expected))
        by_form[each.form].append(bool(each.expected))
    assert abs(mean(true for all_ in by_domain.values() for true in all_) - 0.5) < 0.03
    # Three and a half standard errors of a fair coin.
    for found in (*by_domain.values(), *by_form.values()):
        assert abs(mean(found) - 0.5) < 1.75 / len(found) ** 0.5


def test_no_word_of_a_predicate_gives_it_away(made: list[Case]) -> None:
    found = defaultdict(list)
    for _, each in asked(made, "noul"):
        for word in words(each.instructions or ""):
            found[word].append(bool(each.expected))
    for word, truths in found.items():
        if len(truths) >= 150:
            assert abs(mean(truths) - 0.5) < 0.2, word


def test_each_position_is_right_equally_often(made: list[Case]) -> None:
    places = defaultdict(list)
    for _, _, names, right in choices(made):
        places[len(names)].append(right)
    for count, found in places.items():
        if len(found) >= 200:
            for place in range(count):
                share = found.count(place) / len(found)
                assert abs(share - 1 / count) < 1.9 / len(found) ** 0.5


def test_each_level_is_right_about_equally_often(made: list[Case]) -> None:
    levels = defaultdict(list)
    for _, each in asked(made, "score"):
        assert each.criteria is not None
        levels[len(each.criteria)].append(int(each.expected))
    assert set(levels) == set(range(2, 8))
    for count, found in levels.items():
        for level in range(count):
            # A third of a fair share, and three standard errors of it.
            bound = (1 / 3 + 3 * ((count - 1) / len(found)) ** 0.5) / count
            assert abs(found.count(level) / len(found) - 1 / count) < bound, (count, level)


def test_there_are_two_to_twenty_options(made: list[Case]) -> None:
    counts = Counter(len(names) for _, _, names, _ in choices(made))
    total = sum(counts.values())
    assert min(counts) == 2
    assert max(counts) == 20 <= MAX_OPTIONS
    assert all(counts[count] >= 0.1 * total for count in (2, 3, 4, 5))
    assert sum(counts[count] for count in counts if count >= 8) >= 0.04 * total


def test_options_are_named_described_or_both(made: list[Case]) -> None:
    bare = described = 0
    for _, each, _, _ in choices(made):
        assert isinstance(each.criteria, Mapping)
        meanings = [meaning is not None for meaning in each.criteria.values()]
        bare += not any(meanings)
        described += any(meanings)
    assert 0.3 <= bare / (bare + described) <= 0.7


def test_no_name_wins_by_habit(made: list[Case]) -> None:
    offered: Counter[str] = Counter()
    won: Counter[str] = Counter()
    fair: defaultdict[str, float] = defaultdict(float)
    for _, _, names, right in choices(made):
        for place, name in enumerate(names):
            key = re.sub(r"[_-]", " ", name.lower())
            offered[key] += 1
            won[key] += place == right
            fair[key] += 1 / len(names)
    for name, count in offered.items():
        if count >= 40:
            assert abs(won[name] - fair[name]) < 4 * (count * 0.25) ** 0.5, name


def test_simple_habits_stay_near_chance(made: list[Case]) -> None:
    """Longest option, first option, and the option with most of its words in the state."""
    chance, longest, first, overlap = [], [], [], []
    for case, each, names, right in choices(made):
        assert isinstance(each.criteria, Mapping)
        texts = [f"{name} {meaning or ''}" for name, meaning in each.criteria.items()]
        present = state_words(case)
        shares = [len(words(text) & present) / max(1, len(words(text))) for text in texts]
        chance.append(1 / len(names))
        longest.append(_hit([len(text) for text in texts], right))
        overlap.append(_hit(shares, right))
        first.append(right == 0)
    assert abs(mean(longest) - mean(chance)) < 0.03
    assert abs(mean(first) - mean(chance)) < 0.03
    assert mean(overlap) - mean(chance) < 0.08


def test_overlap_does_not_tell_true_from_false(made: list[Case]) -> None:
    """Statements share about as many words with the state when they are false."""
    shares: dict[bool, list[float]] = {True: [], False: []}
    for case, each in asked(made, "noul"):
        text = words(each.instructions or "")
        shares[bool(each.expected)].append(len(text & state_words(case)) / max(1, len(text)))
    assert abs(mean(shares[True]) - mean(shares[False])) < 0.05


def _hit(values: list[int] | list[float], right: int) -> float:
    best = [place for place, value in enumerate(values) if value == max(values)]
    return (right in best) / len(best)
