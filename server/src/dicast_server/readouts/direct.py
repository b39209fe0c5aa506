"""The direct readout: one JSON object with evidence, criterion and labelled options; the labels' scores.

The prompt is that of `direct-options-v1` (SemIf), where a description stands alone under its label. That is
kept as a setting; by default an option's name is shown with its description, and one text of the system
serves questions of every kind, so that they share their prefix.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from dicast import jsontext
from dicast_server.decisions.passes import Prompt, Reading, Reads
from dicast_server.decisions.questions import Choice, Content, Predicate, Question
from dicast_server.decisions.types import FieldError, only
from dicast_server.decisions.wording import Wording, option_names
from dicast_server.readouts.readout import Model, Opening
from dicast_server.readouts.scores import average, shuffled
from dicast_server.readouts.texts import instructions, option_lines

NAME = "direct"
LETTERS = tuple(ascii_uppercase)
LABELS = (*LETTERS, *(first + second for first in LETTERS for second in LETTERS))
"""Letters and then pairs of letters; used are those that are one token of their own (403 of SmolLM2's)."""

_RULE = (
    "Apply the supplied criterion to the supplied evidence. Choose exactly one listed option. "
    "Respond with only its {}, with no explanation or reasoning."
)
LETTER_RULE = _RULE.format("uppercase letter")
LABEL_RULE = _RULE.format("label, exactly as written")

_WORDING = Wording.JSON
_YES_NO = ("Yes", "No")


@dataclass(frozen=True, slots=True)
class DirectSettings:
    """`hide_names` shows the published prompt: descriptions without the options' names."""

    hide_names: bool = False


class DirectKind:
    """Registers the direct readout."""

    name = NAME

    def settings(self, body: jsontext.Object) -> DirectSettings:
        """Its settings from JSON: `hide_names`."""
        only(body, "hide_names")
        hide = body.get("hide_names", False)
        if not isinstance(hide, bool):
            raise FieldError(("hide_names",), "must be true or false")
        return DirectSettings(hide)

    def open(self, state: Content, model: Model, settings: DirectSettings) -> Direct:
        """Read labels about a state."""
        return Direct(state, model, settings)


KIND = DirectKind()


class Direct:
    """Reads questions about one state: every option under a label, whatever their number, in one pass."""

    def __init__(self, state: Content, model: Model, settings: DirectSettings) -> None:
        self._state = _WORDING.state(state)
        self._model = model
        self._hides = settings.hide_names

    @property
    def prompt_version(self) -> str:
        """The published prompt's name, or ours."""
        return "direct-options-v1" if self._hides else "direct-1-named"

    def opening(self, question: Question | None) -> Opening:
        """The evidence; what follows begins with the criterion."""
        evidence = json.dumps({"evidence": self._state}, ensure_ascii=False)
        return Opening(self._rule(question), evidence.removesuffix("}"), self._message("", []))

    def read(self, question: Question, temperature: float, orders: int) -> Reads:
        """Read as `Readout.read` says; raises ValueError where the model has fewer labels than options."""
        options = range(question.options)
        rule = self._rule(question)
        wanted = LETTERS if rule == LETTER_RULE else LABELS
        labels = tuple(self._model.single_tokens(rule, wanted)[: len(options)])
        if len(labels) < len(options):
            raise ValueError(
                f"has {len(options)} options, and this model has {len(labels)} labels of one token each; "
                "use the letters readout"
            )
        prompts = tuple(self._prompt(question, labels, order) for order in shuffled(options, orders))
        scores = yield prompts
        mean = average(options, prompts, [each.values for each in scores], temperature)
        return Reading(mean.probabilities, orders, mean.spread)

    def later(self, question: Question) -> None:
        """All options are read in one round."""

    def _rule(self, question: Question | None) -> str:
        """The published rule for letters where only letters are needed, and the one for labels else."""
        only_letters = question is None or question.options <= len(LETTERS)
        return LETTER_RULE if self._hides and only_letters else LABEL_RULE

    def _prompt(self, question: Question, labels: Sequence[str], order: Sequence[int]) -> Prompt:
        rule = self._rule(question)
        key = "letter" if rule == LETTER_RULE else "label"
        fields = self._fields(question)
        listed = [{key: label, **fields[option]} for label, option in zip(labels, order, strict=True)]
        criterion = instructions(question, _WORDING)
        return Prompt(self._message(criterion, listed), tuple(labels), tuple(order), system=rule)

    def _message(self, criterion: str, listed: Sequence[Any]) -> str:
        whole = {"evidence": self._state, "criterion": criterion, "options": listed}
        return json.dumps(whole, ensure_ascii=False)

    def _fields(self, question: Question) -> list[dict[str, str]]:
        if self._hides:
            return [{"description": text} for text in _descriptions(question)]
        lines = option_lines(question, _WORDING)
        return [{"name": name, **({"description": text} if text else {})} for name, text in lines]


def _descriptions(question: Question) -> list[str]:
    """What stands for an option in the published prompt: its description, else its name."""
    match question.type:
        case Predicate(when_true=true, when_false=false):
            said = [_WORDING.description(true), _WORDING.description(false)]
            return [text or default for text, default in zip(said, _YES_NO, strict=True)]
        case Choice(options=options):
            names = option_names(question.type)
            return [_WORDING.description(o.description) or n for o, n in zip(options, names, strict=True)]
        case _:
            return [text for _, text in option_lines(question, _WORDING)]
