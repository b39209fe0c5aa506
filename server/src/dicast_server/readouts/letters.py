"""The letters readout: options under letters, and the letters' scores at the reply's first token.

The protocol is OpenJev's: one user message a question, `State:`, `Question:`, `Options:` and a closing
line that asks for a letter. The probabilities are the softmax over exactly the listed letters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from string import ascii_lowercase, ascii_uppercase

from dicast_server.decisions.passes import Prompt, Reading, Reads
from dicast_server.decisions.questions import Choice, Predicate, Question
from dicast_server.decisions.wording import Wording, option_names
from dicast_server.readouts.profile import OptionStyle, Profile

NAME = "letters"
LETTERS = tuple(ascii_uppercase + ascii_lowercase)
MAX_OPTIONS = len(LETTERS)

DEFAULT_INSTRUCTIONS = {
    "predicate": "Is the statement true?",
    "choice": "Which option fits best?",
    "score": "Which level fits best?",
}
DEFAULT_TRUE = "The statement is true."
DEFAULT_FALSE = "The statement is false."

_SCORE_SUFFIX = " Rate along the ordered levels below (lowest first)."
_CLOSING = "Answer with the letter of the best option only."


class Letters:
    """Reads questions about one state under a profile's style and constants."""

    def __init__(self, state: str, profile: Profile, style: OptionStyle | None = None) -> None:
        self._state = state
        self._profile = profile
        self._style = style or profile.style

    def read(self, question: Question, temperature: float) -> Reads:
        """Yield the question's prompt, receive its scores, end with the reading.

        Scores are divided by `temperature` (> 0). Raises ValueError past MAX_OPTIONS options.
        """
        lines = option_lines(question, self._profile.wording)
        if len(lines) > MAX_OPTIONS:
            raise ValueError(f"{len(lines)} options have no letters: there are {MAX_OPTIONS}")
        labels = LETTERS[: len(lines)]
        prompt = Prompt(
            message(self._state, _instructions(question, self._profile.wording), lines, self._style),
            labels,
            tuple(range(len(lines))),
        )
        (scores,) = yield (prompt,)
        probabilities = softmax(scores.values, temperature)
        if isinstance(question.type, Predicate):
            true = predicate_probability(probabilities[0], self._profile)
            probabilities = (true, 1.0 - true)
        return Reading(probabilities)


def state_message(state: str) -> str:
    """The message of a state alone, to find where a state's prefix ends."""
    return f"State:\n{state}"


def empty_message(state: str, style: OptionStyle) -> str:
    """The message of a question that says nothing and has no options, for the same purpose."""
    return message(state, "", [], style)


def message(state: str, instructions: str, lines: Sequence[tuple[str, str]], style: OptionStyle) -> str:
    """The user's message of one prompt; `lines` are the options' names and descriptions."""
    left, right = ("[", "]") if style is OptionStyle.BRACKET else ("", ")")
    options = "\n".join(
        f"{left}{letter}{right} {name}: {description}"
        for letter, (name, description) in zip(LETTERS, lines, strict=False)
    )
    return f"{state_message(state)}\n\nQuestion: {instructions}\nOptions:\n{options}\n\n{_CLOSING}"


def option_lines(question: Question, wording: Wording) -> list[tuple[str, str]]:
    """The name and the description of each option, in the order of the question."""
    type_ = question.type
    if isinstance(type_, Predicate):
        return [
            ("yes", wording.description(type_.when_true) or DEFAULT_TRUE),
            ("no", wording.description(type_.when_false) or DEFAULT_FALSE),
        ]
    if isinstance(type_, Choice):
        descriptions = [wording.description(option.description) for option in type_.options]
        return list(zip(option_names(type_), descriptions, strict=True))
    return [(str(index), wording.level(level)) for index, level in enumerate(type_.levels)]


def softmax(scores: Sequence[float], temperature: float) -> tuple[float, ...]:
    """exp(score / temperature), normalised to sum to 1; float64."""
    top = max(scores)
    weights = [math.exp((score - top) / temperature) for score in scores]
    total = math.fsum(weights)
    return tuple(weight / total for weight in weights)


def predicate_probability(probability: float, profile: Profile) -> float:
    """A predicate's probability under a profile: clamped, and its logit divided by the slope."""
    if profile.predicate_slope == 1.0 and profile.predicate_clamp == 0.0:
        return probability
    clamped = min(1.0 - profile.predicate_clamp, max(profile.predicate_clamp, probability))
    logit = math.log(clamped / (1.0 - clamped)) / profile.predicate_slope
    return 1.0 / (1.0 + math.exp(-logit))


def _instructions(question: Question, wording: Wording) -> str:
    kind = type(question.type).__name__.lower()
    if question.instructions is None:
        text = DEFAULT_INSTRUCTIONS[kind]
    else:
        text = wording.instructions(question.instructions)
    return text + _SCORE_SUFFIX if kind == "score" else text
