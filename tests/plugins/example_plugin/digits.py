"""A readout: options under digits, and the digits' scores at the reply's first token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dicast import jsontext
from dicast_server.decisions.passes import Prompt, Reading, Reads
from dicast_server.decisions.questions import Content, Question
from dicast_server.decisions.types import FieldError
from dicast_server.readouts.readout import Model, Opening
from dicast_server.readouts.scores import average, shuffled
from dicast_server.readouts.texts import instructions, option_lines


@dataclass(frozen=True, slots=True)
class DigitsSettings:
    """`first` is the first option's digit."""

    first: int = 1


class DigitsKind:
    """What is registered."""

    name = "x_digits"

    def settings(self, body: jsontext.Object) -> DigitsSettings:
        """Its settings from JSON: `first`, which is 0 or 1."""
        for name, value in body.items():
            if name != "first":
                raise FieldError((name,), "is no setting of x_digits")
            if not isinstance(value, jsontext.Number) or value.text not in ("0", "1"):
                raise FieldError((name,), "must be 0 or 1")
        return DigitsSettings(0 if body.get("first") == 0 else 1)

    def open(self, state: Content, model: Model, settings: DigitsSettings) -> Digits:
        """Read digits about a state."""
        return Digits(state, model, settings)


class Digits:
    """Reads questions about one state."""

    prompt_version = "x-digits-1"

    def __init__(self, state: Content, model: Model, settings: DigitsSettings) -> None:
        self._wording = model.profile.wording
        self._state = self._wording.state(state)
        self._model = model
        self._digits = [str(digit) for digit in range(settings.first, 10)]

    def opening(self, question: Question | None) -> Opening:
        """The state comes first, so that all questions share it."""
        return Opening("", f"Evidence: {self._state}", self._message("", []))

    def read(self, question: Question, temperature: float, orders: int) -> Reads:
        """One prompt for each order of the options."""
        labels = self._model.single_tokens("", self._digits)[: question.options]
        if len(labels) < question.options:
            raise ValueError(f"has {question.options} options, and x_digits reads {len(labels)}")
        prompts = tuple(
            self._prompt(question, labels, order) for order in shuffled(range(question.options), orders)
        )
        scores = yield prompts
        mean = average(range(question.options), prompts, [each.values for each in scores], temperature)
        return Reading(mean.probabilities, orders, mean.spread)

    def later(self, question: Question) -> None:
        """There is one round."""

    def _prompt(self, question: Question, labels: Sequence[str], order: tuple[int, ...]) -> Prompt:
        lines = option_lines(question, self._wording)
        listed = [f"{label}. {': '.join(lines[option])}" for label, option in zip(labels, order, strict=True)]
        text = self._message(instructions(question, self._wording), listed)
        return Prompt(text, tuple(labels), order)

    def _message(self, asked: str, listed: Sequence[str]) -> str:
        return "\n".join([f"Evidence: {self._state}", "", asked, *listed, "Answer with a digit."])


DIGITS = DigitsKind()
