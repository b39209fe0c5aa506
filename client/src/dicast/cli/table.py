"""Answers for people: a line for each option with its bar, at most 100 columns wide."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

from dicast import (
    Answer,
    ChoiceAnswer,
    Decision,
    Diagnostics,
    ExtensionAnswer,
    PredicateAnswer,
    Refused,
    ScoreAnswer,
    Skipped,
)

WIDTH = 100
_BAR = 40
_LABEL = 40


@dataclass(frozen=True, slots=True)
class Style:
    """The characters of a drawing.

    Attributes:
        blocks: a full cell, then what one cell can show of a part, from the least to the most.
        ellipsis: stands for what was cut off.
        dot: stands between the parts of a line.
    """

    blocks: str
    ellipsis: str
    dot: str


UNICODE = Style(blocks="█▏▎▍▌▋▊▉", ellipsis="…", dot=" · ")
ASCII = Style(blocks="#", ellipsis="~", dot=", ")


def style_for(stream: TextIO) -> Style:
    """The finest style that a stream can show."""
    try:
        (UNICODE.blocks + UNICODE.ellipsis + UNICODE.dot).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def bar(share: float, width: int, style: Style) -> str:
    """A bar for a share in [0, 1] of `width` cells. Empty for 0 alone, else at least a trace."""
    full, parts = style.blocks[0], style.blocks[1:]
    steps = len(parts) + 1
    eighths = min(round(share * width * steps), width * steps)
    if share > 0:
        eighths = max(eighths, 1)
    cells, rest = divmod(eighths, steps)
    return full * cells + (parts[rest - 1] if rest else "")


def decision_lines(decision: Decision, style: Style) -> list[str]:
    """All answers, and a last line about the request."""
    lines: list[str] = []
    for answer in decision:
        lines += [*answer_lines(answer, style), ""]
    usage = decision.usage
    tokens = f"{usage.input_tokens} tokens ({usage.cached_tokens} cached)"
    about = [decision.model, tokens, f"{decision.elapsed_s * 1000:.0f} ms"]
    if decision.request_id:
        about.append(f"request {decision.request_id}")
    return [*lines, fit(style.dot.join(about), WIDTH, style)]


def answer_lines(answer: Answer, style: Style) -> list[str]:
    """One answer: what was decided, then a line for each option."""
    rows: list[tuple[str, float]] = []
    match answer:
        case PredicateAnswer():
            outcome = "yes" if answer.value else "no"
            rows = [("yes", answer.probability), ("no", 1 - answer.probability)]
        case ChoiceAnswer():
            names = _option_names(tuple(answer.probabilities))
            outcome = f"{names.get(answer.value, answer.value)}  (confidence {answer.confidence:.3f})"
            rows = [(names[value], share) for value, share in answer.probabilities.items()]
        case ScoreAnswer():
            top = len(answer.probabilities) - 1
            outcome = f"{answer.score:.2f} of {top}  (confidence {answer.confidence:.3f})"
            rows = [
                (f"{level} {label or ''}".rstrip(), share)
                for level, (label, share) in enumerate(zip(answer.labels, answer.probabilities, strict=True))
            ]
        case Skipped():
            was = "was not answered" if answer.was is None else f"was {json.dumps(answer.was)}"
            outcome = f"skipped, because {answer.because} {was}"
        case Refused():
            outcome = f"refused ({answer.reason.replace('_', ' ')}): {answer.message}"
        case ExtensionAnswer():
            outcome = f"{answer.type} {answer.json}"
    lines = [fit(f"{answer.key}: {outcome}", WIDTH, style)]
    labels = [fit(label, _LABEL, style) for label, _ in rows]
    width = max(map(columns, labels), default=0)
    for label, (_, share) in zip(labels, rows, strict=True):
        drawn = bar(share, _BAR, style)
        lines.append(f"  {pad(label, width)}  {pad(drawn, _BAR)}  {share:.4f}")
    if answer.diagnostics is not None:
        lines.append(fit("  " + _reading(answer.diagnostics, style), WIDTH, style))
    return lines


def field_lines(fields: Iterable[tuple[str, str]], style: Style) -> list[str]:
    """Names and values in two columns; what is empty is left out."""
    shown = [(name, value) for name, value in fields if value]
    width = max((columns(name) for name, _ in shown), default=0)
    return [fit(f"  {pad(name, width)}  {value}", WIDTH, style) for name, value in shown]


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(_character_columns(character) for character in text)


def pad(text: str, width: int) -> str:
    """A text filled up with spaces to a number of columns."""
    return text + " " * (width - columns(text))


def fit(text: str, width: int, style: Style) -> str:
    """A text on one line of at most `width` columns. Control characters are shown, not sent."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    if columns(shown) <= width:
        return shown
    kept, room = "", width - columns(style.ellipsis)
    for character in shown:
        room -= _character_columns(character)
        if room < 0:
            break
        kept += character
    return kept + style.ellipsis


def _character_columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _option_names(values: Sequence[str | bool]) -> dict[str | bool, str]:
    # Where true and "true" are both options, quotes tell them apart.
    mixed = any(isinstance(v, bool) and json.dumps(v) in values for v in values)
    return {v: json.dumps(v, ensure_ascii=False) if mixed or isinstance(v, bool) else v for v in values}


def _reading(diagnostics: Diagnostics, style: Style) -> str:
    source = diagnostics.temperature_source
    return style.dot.join(
        [
            f"read by {diagnostics.readout}",
            f"option mass {diagnostics.option_mass:.3f}",
            f"temperature {diagnostics.temperature:g} ({source})",
            f"{diagnostics.forwards} forwards",
        ]
    )
