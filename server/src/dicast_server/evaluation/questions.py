"""Labelled questions as the client asks them."""

from __future__ import annotations

from collections.abc import Sequence

import dicast
from dicast import jsontext
from dicast_server.calibration.labelled import LabelledQuestion
from dicast_server.decisions.questions import Choice, Content, Json, Predicate, Question, Score

MOST_AT_ONCE = 32
"""With the most orders that are served they still stay under the limit of passes."""


def by_state(questions: Sequence[LabelledQuestion]) -> list[list[LabelledQuestion]]:
    """Questions about one state together, MOST_AT_ONCE at most; in the order in which states first occur."""
    states: dict[tuple[bool, str], list[LabelledQuestion]] = {}
    for question in questions:
        states.setdefault((isinstance(question.state, str), as_text(question.state)), []).append(question)
    return [
        asked[first : first + MOST_AT_ONCE]
        for asked in states.values()
        for first in range(0, len(asked), MOST_AT_ONCE)
    ]


def as_text(content: Content) -> str:
    """Content as text; JSON as it was written."""
    return content if isinstance(content, str) else jsontext.render(content.value)


def for_client(content: Content) -> dicast.Content:
    """Content as the client takes it."""
    return dicast.Json(as_text(content)) if isinstance(content, Json) else content


def to_client(question: Question) -> dicast.Question:
    """A question as the client asks it: what System One's row becomes on its route."""
    instructions = _maybe(question.instructions)
    match question.type:
        case Predicate(when_true=when_true, when_false=when_false):
            return dicast.Predicate(instructions, when_true=_maybe(when_true), when_false=_maybe(when_false))
        case Choice(options=options):
            listed = [dicast.Option(each.value, _maybe(each.description)) for each in options]
            return dicast.Choice(instructions, listed)
        case Score(levels=levels):
            null = dicast.Json("null")
            return dicast.Score(
                instructions,
                [
                    dicast.Level(
                        level.label, null if level.description is None else _maybe(level.description)
                    )
                    for level in levels
                ],
            )


def _maybe(content: Content | None) -> dicast.Content | None:
    return None if content is None else for_client(content)
