"""What can be asked: predicates, choices and scores, and the wording that they are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dicast import jsontext
from dicast._options import Options, Readout
from dicast.v1 import decision_pb2


@dataclass(frozen=True, slots=True)
class Json:
    """A JSON value as text, carried as it is written: `1.0` stays `1.0`, a repeated key stays repeated.

    A dict or a list does as well where that makes no difference.

    Raises:
        jsontext.JsonError: the text is not JSON (a ValueError).

    Example:
        >>> Json('{"total": 1.0, "id": 12345678901234567890}')
        Json(text='{"total": 1.0, "id": 12345678901234567890}')
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"Json takes JSON text, not a {type(self.text).__name__}: pass the value itself")
        jsontext.parse(self.text)


Content: TypeAlias = "str | Json | bool | int | float | list[Any] | tuple[Any, ...] | Mapping[str, Any]"
"""Wording or evidence: a `str` is text, `Json` is JSON as written, anything else is written as JSON."""

State: TypeAlias = "Content | decision_pb2.State"
"""What is asked about: `Content`, or the message itself, which can hold conversations and pictures too."""

OptionValue: TypeAlias = "str | bool"
"""The value of an option: `"true"` and `True` are two different values."""

AskIf: TypeAlias = "Mapping[str, bool | str | int | Sequence[bool | str | int]]"
"""Conditions: another question's key to the answer, or the answers, under which this one is asked."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a choice.

    Attributes:
        value: names the option; unique in its question, compared with its type.
        description: what the option means. None: not said; `Json("null")` is an explicit null.
    """

    value: OptionValue
    description: Content | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """A level of a score: a label, a description or both.

    Attributes:
        label: a short name, which comes back in the answer. None: none.
        description: what the level means. None: not said; `Json("null")` is an explicit null.
    """

    label: str | None = None
    description: Content | None = None


@dataclass(frozen=True, slots=True)
class _Settings:
    """What a question of any type can carry.

    Attributes:
        name: the caller's own label, which comes back in the answer; it may repeat. None: none.
        readout: how this question is read. None: as the request says.
        ask_if: conditions that must all hold, or the question is skipped: `{"route": ["billing", "tech"]}`.
            A bool is a predicate's outcome, a str an option, an int the most probable level of a score.
        extensions: settings of a server's plugins, by name.
    """

    name: str | None = field(default=None, kw_only=True)
    readout: Readout | None = field(default=None, kw_only=True)
    ask_if: AskIf = field(default_factory=dict, kw_only=True)
    extensions: Mapping[str, Any] = field(default_factory=dict, kw_only=True)


@dataclass(frozen=True, slots=True)
class Predicate(_Settings):
    """Asks whether something is true. System One calls it a noul.

    Attributes:
        instructions: what is asked. None: "Is the statement true?".
        when_true: what "yes" means. None: not said.
        when_false: what "no" means. None: not said.

    Example:
        >>> Predicate("Is the customer angry?", when_true="swears, threatens to leave").instructions
        'Is the customer angry?'
    """

    instructions: Content | None = None
    when_true: Content | None = field(default=None, kw_only=True)
    when_false: Content | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Choice(_Settings):
    """Asks which one of several options fits best.

    Attributes:
        instructions: what is asked. None: "Which option fits best?".
        options: in the order of the prompt. A mapping gives each value its description, where None is JSON
            null; a sequence holds values and `Option`s.

    Example:
        >>> team = Choice("Which team?", {"billing": "charges, refunds", "shipping": None})
        >>> same_day = Choice("Can it go out today?", [True, False, "unknown"])
    """

    instructions: Content | None
    options: (
        Mapping[str, Content | None]
        | Mapping[bool, Content | None]
        | Mapping[str | bool, Content | None]
        | Sequence[str | bool | Option]
    )


@dataclass(frozen=True, slots=True)
class Score(_Settings):
    """Asks for a level on an ordered scale.

    Attributes:
        instructions: what is asked. None: "Which level fits best?".
        levels: lowest first. A `str` is a level's label; other content is a level's description.

    Example:
        >>> urgency = Score("How urgent is it?", ["can wait", "today", Level("now", "money is being lost")])
    """

    instructions: Content | None
    levels: Sequence[Content | Level]


Question: TypeAlias = "Predicate | Choice | Score | decision_pb2.Question"
"""A question. The message itself serves for what the classes cannot say (a plugin's question type)."""

Questions: TypeAlias = "Mapping[str, Question] | Sequence[Question]"
"""Questions by key. In a sequence the keys are "0", "1" and so on."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a stream.

    Attributes:
        id: names the request on its stream: not empty, and not in use when it is sent.
        state: what is asked about.
        questions: by key, or in a sequence.
        model: id or alias. Empty: the default model.
        options: settings of the request. None: the server's.
        end_user: an opaque id of the person behind the request, for the server's log. Empty: none.
        ask: the keys of the questions to ask; the others get no answer. Empty: all.
    """

    id: str
    state: State
    questions: Questions
    model: str = ""
    options: Options | None = None
    end_user: str = ""
    ask: Sequence[str] = ()
