"""The prompts of one model by their system text, each built once and kept."""

import threading
from collections.abc import Mapping
from typing import Any

from dicast_server.models.chat_template import TEMPLATE_SETTINGS, ChatTemplate
from dicast_server.models.prompt import PromptFrame
from dicast_server.models.stretches import Opening
from dicast_server.models.tokenizer import TextEncoder

# Requests may bring system texts of their own, and must not fill the memory with them.
_KEPT = 64


class Frames:
    """Gives the frame of a system text, to any thread."""

    def __init__(self, template: ChatTemplate, encoder: TextEncoder, opening: Opening | None = None) -> None:
        """All replies begin with `opening`; None leaves them as the template does."""
        self._template = template
        self._encoder = encoder
        self._opening = opening
        self._built: dict[str, PromptFrame] = {}
        self._building = threading.Lock()

    @classmethod
    def from_tokenizer(cls, tokenizer: Any, settings: Mapping[str, Any] = TEMPLATE_SETTINGS) -> "Frames":
        """The frames of a tokenizer and its chat template; the one without a system text is built at once.

        Raises:
            ModelRefused: as `PromptFrame.from_template` does.
        """
        frames = cls(ChatTemplate(tokenizer, settings), TextEncoder.of(tokenizer))
        frames.of()
        return frames

    def of(self, system: str = "") -> PromptFrame:
        """The frame of a system text, "" for none; white space around it is dropped.

        Raises:
            ModelRefused: the tokenizer cannot be split around this text and a message.
        """
        system = system.strip()
        with self._building:
            frame = self._built.pop(system, None)
            if frame is None:
                frame = PromptFrame.build(self._template, self._encoder, system)
                if self._opening is not None:
                    frame = frame.opened(self._opening)
            # The last one used is the last one to go.
            self._built[system] = frame
            while len(self._built) > _KEPT:
                del self._built[next(iter(self._built))]
            return frame

    def openings(self) -> list["Frames"]:
        """The same frames with each other way in which their replies could begin."""
        if self._opening is not None:
            return []
        return [Frames(self._template, self._encoder, frame.opening) for frame in self.of().openings()]
