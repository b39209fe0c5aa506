"""From what a row expects to the index of an option: one spelling of an answer a type, all of them told."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dicast import jsontext
from dicast_server.decisions.questions import Choice, Predicate, QuestionType, Score
from dicast_server.decisions.wording import Wording, option_names

_PREDICATE = {"yes": 0, "true": 0, "no": 1, "false": 1}
_SHOWN = 8


class RowFault(ValueError):
    """A row cannot be used; the message names the field and says what is wrong."""


def label_index(type_: QuestionType, expected: jsontext.Value) -> int:
    """The index of the option that is right; a predicate's are 0 for true and 1 for false.

    A predicate takes booleans and yes, no, true, false in any case; a choice an option's name; a score the
    number of a level from 0, as a number or as text, or a level's text.

    Raises:
        RowFault: no option is meant, or more than one.
    """
    match type_:
        case Predicate():
            return _of_predicate(expected)
        case Choice():
            return _of_choice(type_, expected)
        case _:
            return _of_score(type_, expected)


def _of_predicate(expected: jsontext.Value) -> int:
    if isinstance(expected, bool):
        return 0 if expected else 1
    found = _PREDICATE.get(expected.strip().lower()) if isinstance(expected, str) else None
    if found is None:
        raise RowFault(f"expected: {_show(expected)} is not yes, no, true or false")
    return found


def _of_choice(choice: Choice, expected: jsontext.Value) -> int:
    names = option_names(choice)
    if not isinstance(expected, str) or expected not in names:
        raise RowFault(f"expected: {_show(expected)} is not among the options {_listed(names)}")
    return names.index(expected)


def _of_score(score: Score, expected: jsontext.Value) -> int:
    texts = [Wording.JSON.level(level) for level in score.levels]
    top = len(texts) - 1
    if isinstance(expected, jsontext.Number):
        if float(expected).is_integer() and 0 <= expected <= top:
            return int(expected)
        raise RowFault(f"expected: {_show(expected)} is no level; they go from 0 to {top}")
    if not isinstance(expected, str):
        raise RowFault(f"expected: {_show(expected)} is neither the number of a level nor its text")
    meant = {index for index, text in enumerate(texts) if text == expected}
    number = expected.strip()
    if len(number) <= 3 and number.isascii() and number.isdigit() and int(number) <= top:
        meant.add(int(number))
    if len(meant) == 1:
        return meant.pop()
    if meant:
        levels = " and ".join(str(index) for index in sorted(meant))
        raise RowFault(
            f"expected: {_show(expected)} may mean the levels {levels}, by number or by text; say which"
        )
    raise RowFault(f"expected: {_show(expected)} is not among the levels 0 to {top}, {_listed(texts)}")


def _show(value: jsontext.Value) -> str:
    text = jsontext.render(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(json.dumps(name, ensure_ascii=False) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
