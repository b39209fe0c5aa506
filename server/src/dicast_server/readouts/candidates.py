"""The candidates readout: every option has an answer text, and the model's score of that text is read.

A text that is one token is read as the reply's first token; else all of its tokens are scored, each after
those before it, and then the end of the turn, so that "a" and "ab" are two different replies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from dicast import jsontext
from dicast_server.decisions.passes import Prompt, Reading, Reads, Scores
from dicast_server.decisions.questions import Content, Question
from dicast_server.decisions.types import FieldError, only
from dicast_server.readouts.letters import state_message
from dicast_server.readouts.readout import Model, Opening
from dicast_server.readouts.scores import average, corrected, shuffled
from dicast_server.readouts.texts import NO_CONTENT, instructions, option_lines

NAME = "candidates"
_TEXTS = ("readout", "candidates", "texts")
_CLOSING = "Answer with the best option only, exactly as it is written after its dash."


class Scoring(Enum):
    """How an answer text is scored."""

    SINGLE_TOKEN = "single_token"
    SEQUENCE = "sequence"


@dataclass(frozen=True, slots=True)
class CandidatesSettings:
    """How candidates are scored.

    `scoring` of None reads single tokens where every text is one. `normalize_length` divides the score of
    a sequence by its number of tokens; `correct_prior` subtracts the score after a state without content.
    `texts` are the answer texts in the order of the options; none are the options' names.
    """

    scoring: Scoring | None = None
    normalize_length: bool = False
    correct_prior: bool = False
    texts: tuple[str, ...] = ()


class CandidatesKind:
    """Registers the candidates readout."""

    name = NAME

    def settings(self, body: jsontext.Object) -> CandidatesSettings:
        """Its settings from JSON: `scoring`, `normalize_length` and `correct_prior`."""
        only(body, "scoring", "normalize_length", "correct_prior")
        scoring = body.get("scoring")
        if scoring not in [None, *(each.value for each in Scoring)]:
            raise FieldError(("scoring",), "must be single_token or sequence")
        normalize, correct = body.get("normalize_length", False), body.get("correct_prior", False)
        if not isinstance(normalize, bool):
            raise FieldError(("normalize_length",), "must be true or false")
        if not isinstance(correct, bool):
            raise FieldError(("correct_prior",), "must be true or false")
        return CandidatesSettings(None if scoring is None else Scoring(scoring), normalize, correct)

    def open(self, state: Content, model: Model, settings: CandidatesSettings) -> Candidates:
        """Score candidates about a state."""
        return Candidates(state, model, settings)


KIND = CandidatesKind()


class Candidates:
    """Reads questions about one state by the scores of answer texts."""

    prompt_version = "candidates-1"

    def __init__(self, state: Content, model: Model, settings: CandidatesSettings) -> None:
        self._state = model.profile.wording.state(state)
        self._model = model
        self._settings = settings

    def opening(self, question: Question | None) -> Opening:
        """That of the letters, whose prefix this shares."""
        return Opening("", state_message(self._state), message(self._state, "", []))

    def read(self, question: Question, temperature: float, orders: int) -> Reads:
        """Read as `Readout.read` says.

        Raises FieldError where the texts are not as many as the options or not all different or one is empty,
        ValueError where single tokens are asked for and one is not.
        """
        settings = self._settings
        texts = self._texts(question)
        whole = self._whole(texts)
        options = range(len(texts))
        prompts = [self._prompt(question, texts, order, whole) for order in shuffled(options, orders)]
        priors = [
            self._prompt(question, texts, p.options, whole, prior=True)
            for p in prompts
            if settings.correct_prior
        ]
        found = yield (*prompts, *priors)
        divided = settings.normalize_length and whole
        read = [_per_token(scores) for scores in found] if divided else found
        scores = corrected(read[: len(prompts)], read[len(prompts) :])
        mean = average(options, prompts, scores, temperature)
        return Reading(mean.probabilities, orders, mean.spread, settings.correct_prior, divided)

    def later(self, question: Question) -> None:
        """All candidates are read in one round."""

    def _texts(self, question: Question) -> tuple[str, ...]:
        names = tuple(name for name, _ in option_lines(question, self._model.profile.wording))
        texts, own = self._settings.texts or names, bool(self._settings.texts)
        if len(texts) != len(names):
            raise FieldError(_TEXTS, f"are {len(texts)} candidate texts for {len(names)} options")
        places: dict[str, int] = {}
        for place, text in enumerate(texts):
            path = (*_TEXTS, place) if own else ("choice", "options", place, "value")
            if not text:
                raise FieldError(path, "is empty: there is nothing to score; give candidate texts")
            if (earlier := places.setdefault(text, place)) != place:
                raise FieldError(path, f"is the same candidate text as that of option {earlier}")
        return texts

    def _whole(self, texts: Sequence[str]) -> bool:
        """Whether texts are scored as whole replies."""
        if self._settings.scoring is Scoring.SEQUENCE:
            return True
        single = set(self._model.single_tokens("", texts))
        others = [text for text in texts if text not in single]
        if others and self._settings.scoring is Scoring.SINGLE_TOKEN:
            shown = ", ".join(map(repr, others[:3]))
            raise ValueError(
                f"has candidates that are not one token of their own ({shown}); score them as sequences"
            )
        return bool(others)

    def _prompt(
        self, question: Question, texts: Sequence[str], order: Sequence[int], whole: bool, prior: bool = False
    ) -> Prompt:
        wording = self._model.profile.wording
        lines = option_lines(question, wording)
        listed = [(texts[option], lines[option][1]) for option in order]
        state = NO_CONTENT if prior else self._state
        text = message(state, instructions(question, wording), listed)
        labels = tuple(texts[option] for option in order)
        return Prompt(text, labels, tuple(order), whole=whole, prior=prior)


def message(state: str, asked: str, lines: Sequence[tuple[str, str]]) -> str:
    """The user's message of one prompt; `lines` are the candidates' texts and descriptions."""
    options = "\n".join(
        f"- {text}: {description}" if description else f"- {text}" for text, description in lines
    )
    return f"{state_message(state)}\n\nQuestion: {asked}\nOptions:\n{options}\n\n{_CLOSING}"


def _per_token(scores: Scores) -> Scores:
    values = tuple(value / length for value, length in zip(scores.values, scores.lengths, strict=True))
    return Scores(values, scores.mass, scores.forwards, scores.lengths)
