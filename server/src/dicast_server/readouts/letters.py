"""The letters readout: options under letters, and the letters' scores at the reply's first token.

The protocol is OpenJev's: one user message a question, `State:`, `Question:`, `Options:` and a closing
line that asks for a letter. The probabilities are the softmax over exactly the listed letters. More options
than letters are read in chunks, and then the chunks' winners against each other.
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
MAX_OPTIONS = len(LETTERS) ** 2
"""Chunks of as many as there are letters, and as many chunks."""

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
        """Yield the prompts of a round, receive their scores, end with the reading.

        Scores are divided by `temperature` (> 0). With more options than letters a second round asks for the
        best of the chunks' winners; an option's probability is then its winner's in that round times its
        own over its winner's in its chunk, normalised. That is exact where an option's score against others
        does not depend on what else is listed. Raises ValueError past MAX_OPTIONS options.
        """
        lines = option_lines(question, self._profile.wording)
        chunks = _chunks(len(lines))
        scores = yield tuple(self._prompt(question, lines, chunk) for chunk in chunks)
        parts = [softmax(each.values, temperature) for each in scores]
        if len(chunks) > 1:
            tops = [max(part) for part in parts]
            winners = [chunk[part.index(top)] for chunk, part, top in zip(chunks, parts, tops, strict=True)]
            (last,) = yield (self._prompt(question, lines, winners),)
            among = softmax(last.values, temperature)
            raw = [p * w / top for part, w, top in zip(parts, among, tops, strict=True) for p in part]
            total = math.fsum(raw)
            return Reading(tuple(value / total for value in raw))
        (probabilities,) = parts
        if isinstance(question.type, Predicate):
            true = predicate_probability(probabilities[0], self._profile)
            probabilities = (true, 1.0 - true)
        return Reading(probabilities)

    def longest_later(self, question: Question) -> Prompt | None:
        """A prompt as long as one of the second round can be, in letters; None where there is no second."""
        lines = option_lines(question, self._profile.wording)
        chunks = _chunks(len(lines))
        if len(chunks) == 1:
            return None
        longest = [max(chunk, key=lambda option: len("".join(lines[option]))) for chunk in chunks]
        return self._prompt(question, lines, longest)

    def _prompt(self, question: Question, lines: Sequence[tuple[str, str]], options: Sequence[int]) -> Prompt:
        listed = [lines[option] for option in options]
        instructions = _instructions(question, self._profile.wording)
        text = message(self._state, instructions, listed, self._style)
        return Prompt(text, LETTERS[: len(options)], tuple(options))


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


def _chunks(options: int) -> list[range]:
    """Options by their place, cut as evenly as they go into chunks that have letters enough."""
    if options > MAX_OPTIONS:
        raise ValueError(f"{options} options are too many: {MAX_OPTIONS} can be read")
    size = math.ceil(options / math.ceil(options / len(LETTERS)))
    return [range(start, min(start + size, options)) for start in range(0, options, size)]


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
