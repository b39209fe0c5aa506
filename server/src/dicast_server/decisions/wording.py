"""How content becomes the text of a prompt: as JSON, or as the original OpenJev helper wrote it."""

from __future__ import annotations

import json
from enum import Enum

from dicast import jsontext
from dicast_server.decisions.questions import Choice, Content, Json, Level


class Wording(Enum):
    """How a value that is not text is written.

    JSON keeps number text, key order and non-ASCII. OPENJEV is what the OpenJev weights were trained
    and measured with: Python's str() of arrays and scalars and of all structured instructions, JSON for
    objects and descriptions.
    """

    JSON = "json"
    OPENJEV = "openjev"

    def state(self, content: Content) -> str:
        """The text of a state."""
        if isinstance(content, str):
            return content
        if self is Wording.OPENJEV:
            if isinstance(content.value, jsontext.Object):
                return _python_json(content)
            return str(jsontext.plain(content.value))
        return jsontext.render(content.value)

    def instructions(self, content: Content) -> str:
        """The text of a question's instructions."""
        if isinstance(content, str):
            return content
        if self is Wording.OPENJEV:
            return str(jsontext.plain(content.value))
        return jsontext.render(content.value)

    def description(self, content: Content | None) -> str:
        """The text of a description; empty where there is none."""
        if content is None:
            return ""
        if isinstance(content, str):
            return content
        return _python_json(content) if self is Wording.OPENJEV else jsontext.render(content.value)

    def level(self, level: Level) -> str:
        """The text of a level: `label`, `description`, or `label: description` where it has both."""
        description = self.description(level.description)
        if level.label is None:
            return description
        return f"{level.label}: {description}" if description else level.label


def option_names(choice: Choice) -> list[str]:
    """The options' values as the prompt shows them: a boolean as `true` or `false`.

    Where a boolean and a string of the same look meet in one question, all values are written as JSON.
    """
    names = [value if isinstance(value, str) else _boolean(value) for value in _values(choice)]
    if len(set(names)) == len(names):
        return names
    return [json.dumps(value, ensure_ascii=False) for value in _values(choice)]


def _values(choice: Choice) -> list[str | bool]:
    return [option.value for option in choice.options]


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _python_json(content: Json) -> str:
    return json.dumps(jsontext.plain(content.value), ensure_ascii=False)
