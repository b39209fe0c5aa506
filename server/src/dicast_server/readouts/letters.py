"""The letters readout: options under letters, and the letters' scores at the reply's first token.

The protocol is OpenJev's: one user message a question, `State:`, `Question:`, `Options:` and a closing
line that asks for a letter. The probabilities are the softmax over exactly the listed letters. More options
than letters are read in chunks, and then the chunks' winners against each other.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase

from dicast import jsontext
from dicast_server.decisions.passes import Prompt, Reading, Reads, Scores
from dicast_server.decisions.questions import Content, Predicate, Question, Score
from dicast_server.decisions.types import FieldError, only
from dicast_server.decisions.wording import Wording
from dicast_server.readouts.profile import OptionStyle
from dicast_server.readouts.readout import Model, Opening
from dicast_server.readouts.scores import Averaged, average, corrected, predicate_probability, shuffled
from dicast_server.readouts.texts import NO_CONTENT, instructions, option_lines

NAME = "letters"
LETTERS = tuple(ascii_uppercase + ascii_lowercase)
MAX_OPTIONS = len(LETTERS) ** 2
"""Chunks of as many as there are letters, and as many chunks."""

_SCORE_SUFFIX = " Rate along the ordered levels below (lowest first)."
_CLOSING = "Answer with the letter of the best option only."


@dataclass(frozen=True, slots=True)
class LettersSettings:
    """How letters are read; None is the profile's choice.

    `correct_prior` subtracts the letters' scores after a state without content.
    """

    style: OptionStyle | None = None
    correct_prior: bool | None = None


class LettersKind:
    """Registers the letters readout."""

    name = NAME

    def settings(self, body: jsontext.Object) -> LettersSettings:
        """Its settings from JSON: `style` and `correct_prior`."""
        only(body, "style", "correct_prior")
        style, correct = body.get("style"), body.get("correct_prior")
        if style not in [None, *(each.value for each in OptionStyle)]:
            raise FieldError(("style",), "must be plain or bracket")
        if correct is not None and not isinstance(correct, bool):
            raise FieldError(("correct_prior",), "must be true or false")
        return LettersSettings(None if style is None else OptionStyle(style), correct)

    def open(self, state: Content, model: Model, settings: LettersSettings) -> Letters:
        """Read letters about a state."""
        return Letters(state, model, settings)


KIND = LettersKind()


class Letters:
    """Reads questions about one state under a profile's style and constants."""

    def __init__(self, state: Content, model: Model, settings: LettersSettings) -> None:
        profile = model.profile
        self._profile = profile
        self._state = profile.wording.state(state)
        self._style = settings.style or profile.style
        correct = settings.correct_prior
        self._corrects = profile.correct_prior if correct is None else correct

    @property
    def prompt_version(self) -> str:
        """Of style and wording, which are all that changes the texts."""
        return f"letters-1-{self._style.value}-{self._profile.wording.value}"

    def opening(self, question: Question | None) -> Opening:
        """The state alone, and a question that says nothing and has no options."""
        return Opening("", state_message(self._state), message(self._state, "", [], self._style))

    def read(self, question: Question, temperature: float, orders: int) -> Reads:
        """Read as `Readout.read` says.

        With more options than letters a second round asks for the best of the chunks' winners; an option's
        probability is then its winner's in that round times its own over its winner's in its chunk,
        normalised. That is exact where an option's score against others does not depend on what else is
        listed. Raises ValueError past MAX_OPTIONS options.
        """
        lines = option_lines(question, self._profile.wording)
        chunks = _chunks(len(lines))
        means = yield from self._read_sets(question, lines, chunks, temperature, orders)
        spread = max(mean.spread for mean in means)
        if len(chunks) == 1:
            probabilities = means[0].probabilities
            if isinstance(question.type, Predicate):
                true = predicate_probability(probabilities[0], self._profile)
                probabilities = (true, 1.0 - true)
        else:
            parts = [mean.probabilities for mean in means]
            tops = [max(part) for part in parts]
            winners = [chunk[part.index(top)] for chunk, part, top in zip(chunks, parts, tops, strict=True)]
            (among,) = yield from self._read_sets(question, lines, [winners], temperature, orders)
            spread = max(spread, among.spread)
            finals = zip(parts, among.probabilities, tops, strict=True)
            raw = [p * final / top for part, final, top in finals for p in part]
            total = math.fsum(raw)
            probabilities = tuple(value / total for value in raw)
        return Reading(probabilities, orders, spread, prior_corrected=self._corrects)

    def later(self, question: Question) -> Prompt | None:
        """The longest that a prompt of the second round can be, in letters; None where there is no second."""
        lines = option_lines(question, self._profile.wording)
        chunks = _chunks(len(lines))
        if len(chunks) == 1:
            return None
        longest = [max(chunk, key=lambda option: len("".join(lines[option]))) for chunk in chunks]
        return self._prompt(question, lines, longest)

    def _read_sets(
        self,
        question: Question,
        lines: Sequence[tuple[str, str]],
        sets: Sequence[Sequence[int]],
        temperature: float,
        orders: int,
    ) -> Generator[tuple[Prompt, ...], tuple[Scores, ...], list[Averaged]]:
        """One round: each set of options in all orders, and the same without content where that corrects."""
        prompts = [self._prompt(question, lines, order) for set_ in sets for order in shuffled(set_, orders)]
        priors = [self._prompt(question, lines, p.options, prior=True) for p in prompts if self._corrects]
        found = yield (*prompts, *priors)
        scores = corrected(found[: len(prompts)], found[len(prompts) :])
        return [
            average(set_, prompts[start : start + orders], scores[start : start + orders], temperature)
            for set_, start in zip(sets, range(0, len(prompts), orders), strict=True)
        ]

    def _prompt(
        self,
        question: Question,
        lines: Sequence[tuple[str, str]],
        options: Sequence[int],
        prior: bool = False,
    ) -> Prompt:
        listed = [lines[option] for option in options]
        asked = _instructions(question, self._profile.wording)
        text = message(NO_CONTENT if prior else self._state, asked, listed, self._style)
        return Prompt(text, LETTERS[: len(options)], tuple(options), prior=prior)


def state_message(state: str) -> str:
    """The message of a state alone."""
    return f"State:\n{state}"


def message(state: str, asked: str, lines: Sequence[tuple[str, str]], style: OptionStyle) -> str:
    """The user's message of one prompt; `lines` are the options' names and descriptions."""
    left, right = ("[", "]") if style is OptionStyle.BRACKET else ("", ")")
    options = "\n".join(
        f"{left}{letter}{right} {name}: {description}"
        for letter, (name, description) in zip(LETTERS, lines, strict=False)
    )
    return f"{state_message(state)}\n\nQuestion: {asked}\nOptions:\n{options}\n\n{_CLOSING}"


def _chunks(options: int) -> list[range]:
    """Options by their place, cut as evenly as they go into chunks that have letters enough."""
    if options > MAX_OPTIONS:
        raise ValueError(f"{options} options are too many: {MAX_OPTIONS} can be read")
    size = math.ceil(options / math.ceil(options / len(LETTERS)))
    return [range(start, min(start + size, options)) for start in range(0, options, size)]


def _instructions(question: Question, wording: Wording) -> str:
    text = instructions(question, wording)
    return text + _SCORE_SUFFIX if isinstance(question.type, Score) else text
