"""What a model's chat template writes around a message, found by rendering texts that are told apart."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mlx_lm.tokenizer_utils import TokenizerWrapper

from dicast_server.models.errors import ModelRefused

# The date is for Llama's templates, which otherwise print today's: a restart tomorrow would give
# other numbers. It is the one that the first of them prints.
TEMPLATE_SETTINGS: Mapping[str, Any] = {"enable_thinking": False, "date_string": "26 Jul 2024"}

_SWITCH = "enable_thinking"
# Two contents as unlike as can be, which a template must hand on untouched. Neither begins or
# ends with white space, because many templates strip that, and no message of ours does either;
# and neither spells a control token, so that the model's own tokenizer is a fair witness.
MESSAGES = (
    "State:\nThe door is open.\n\nQuestion: Is it shut?\nOptions:\nA) yes: it is\nB) no: \n\n"
    "Answer with the letter of the best option only.",
    "Grüße: 2 < 3 & \"日本語\" > 'x', {{ no.variable }} {% raw %} \\n 1.5",
)
# What stands for the system text, so that its place is known whatever the text says.
SYSTEM = "You judge what is shown. Reply briefly, and never explain."
_REPLY = "It seems to be ajar."
_BLANK_LINE = "\n\n"


@dataclass(frozen=True, slots=True)
class Layout:
    """The text before and after a message.

    Attributes:
        before: the text before it, with SYSTEM in the place of a system text.
        after: the text behind it, with the header of the assistant's turn.
        found: what is worth knowing of it, in a few words each.
        lead: what comes between the prompt and the first letter of an answer.
    """

    before: str
    after: str
    found: tuple[str, ...]
    lead: str = ""


class ChatTemplate:
    """A tokenizer's chat template, or the plain prompt where it has none."""

    def __init__(self, tokenizer: Any, settings: Mapping[str, Any] = TEMPLATE_SETTINGS) -> None:
        """Try the template on a message.

        Args:
            tokenizer: transformers' fast tokenizer, or mlx-lm's wrapper around one.
            settings: the variables that the template sees besides the messages.

        Raises:
            ModelRefused: the template fails on one user message.
        """
        self._tokenizer = tokenizer
        self._settings = dict(settings)
        self._found: tuple[str, ...] = ()
        self._plain = not getattr(tokenizer, "has_chat_template", tokenizer.chat_template is not None)
        if not self._plain:
            self._try_settings()

    def layouts(self, system: str = "") -> Iterator[Layout]:
        """The places that a system text can have, best first; one layout where there is no such text.

        Raises:
            ModelRefused: the template fails on a message, or shows it changed, or not once.
        """
        if self._plain:
            before = SYSTEM + _BLANK_LINE if system else ""
            yield Layout(before, f"{_BLANK_LINE}Answer:", ("plain prompt, for want of a chat template",), " ")
            return
        found = ("chat template", *self._found)
        if not system:
            yield Layout(*self._surroundings(), found)
            return
        if (shown := self._system_message(system)) is not None:
            yield Layout(*shown, (*found, "system text in its own place"))
        before, after = self._surroundings()
        yield Layout(
            before + SYSTEM + _BLANK_LINE, after, (*found, "system text in front of the user's message")
        )

    def replied(self) -> tuple[str, str] | None:
        """The text up to the end of an assistant's reply, and what the template writes behind it."""
        if self._plain:
            return None
        turns = [{"role": "user", "content": MESSAGES[0]}, {"role": "assistant", "content": _REPLY}]
        try:
            before, reply, after = self._render(turns, prompt=False).rpartition(_REPLY)
        except Exception:  # not every template knows of replies, and then the end of a text is the end of one
            return None
        return (before + reply, after) if reply else None

    def _try_settings(self) -> None:
        turns = [{"role": "user", "content": MESSAGES[0]}]
        try:
            self._render(turns)
        except Exception as error:  # a template is a program of the model's maker
            switched = self._settings.pop(_SWITCH, None) is not None
            try:
                if switched:
                    self._render(turns)
            except Exception:
                switched = False
            if not switched:
                raise _failure(error) from error
            self._found = ("takes no thinking switch",)

    def _render(self, turns: list[dict[str, str]], *, prompt: bool = True) -> str:
        tokenizer = self._tokenizer
        if isinstance(tokenizer, TokenizerWrapper) and _SWITCH not in self._settings:
            # The wrapper would set the switch by itself, unless the template is a program of mlx-lm's.
            tokenizer = tokenizer if tokenizer._chat_template is not None else tokenizer._tokenizer
        return str(
            tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=prompt, **self._settings
            )
        )

    def _system_message(self, system: str) -> tuple[str, str] | None:
        """The surroundings with a system message, or None where the template has no place for this text."""
        try:
            (before, after), real = self._surroundings(SYSTEM), self._surroundings(system)
        except ModelRefused:
            return None
        if before.count(SYSTEM) != 1 or SYSTEM in after:
            return None
        return (before, after) if real == (before.replace(SYSTEM, system), after) else None

    def _surroundings(self, system: str = "") -> tuple[str, str]:
        """The text before and after a message, proved not to depend on it."""
        first = [{"role": "system", "content": system}] if system else []
        found = set()
        for message in MESSAGES:
            try:
                text = self._render([*first, {"role": "user", "content": message}])
            except Exception as error:  # a template is a program of the model's maker
                raise _failure(error) from error
            shown = text.count(message)
            if shown != 1:
                raise ModelRefused(
                    f"the chat template shows a user's message {shown} times unchanged, and once is needed."
                )
            before, _, after = text.partition(message)
            found.add((before, after))
        if len(found) != 1:
            raise ModelRefused("the chat template writes something else around another message.")
        return found.pop()


def _failure(error: Exception) -> ModelRefused:
    reason = " ".join(str(error).split())
    return ModelRefused(f"the chat template fails on one user message ({reason}).")
