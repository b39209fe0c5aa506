"""What a way of reading is: the interface of readouts, which other packages may bring too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from dicast import jsontext
from dicast_server.decisions.passes import Prompt, Reads
from dicast_server.decisions.questions import Content, Question
from dicast_server.readouts.pooled_head import PooledHead
from dicast_server.readouts.profile import Profile

Settings_contra = TypeVar("Settings_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class Model:
    """What a readout may know of the model at hand.

    `single_tokens(system, texts)` are those of some texts that are each one token of their own where the
    reply begins, in their order, no two of them the same token; `system` is the text of the system's message.
    `head` is what reads means of hidden states; a model that has one is read by nothing else.
    """

    profile: Profile
    single_tokens: Callable[[str, Sequence[str]], Sequence[str]]
    head: PooledHead | None = None


@dataclass(frozen=True, slots=True)
class Opening:
    """What all prompts of some questions begin with.

    The shared prefix is made of the tokens that two messages begin with: `alone` ends where the state does,
    `continued` goes on as every question's message does. `system` is the text of the system's message.
    """

    system: str
    alone: str
    continued: str


class Readout(Protocol):
    """Reads questions about one state. Pure: it asks for prompts and makes probabilities of their scores."""

    @property
    def prompt_version(self) -> str:
        """Changes whenever the text of a prompt does."""

    def opening(self, question: Question | None) -> Opening:
        """What the prompts of a question begin with; None stands for any question."""

    def read(self, question: Question, temperature: float, orders: int) -> Reads:
        """Yield the prompts of a round, receive their scores, end with the reading.

        Scores are divided by `temperature` (> 0). `orders` is how often the options are listed anew and the
        probabilities averaged; 1 is once, in the question's own order.

        Raises:
            ValueError: the question cannot be read in this way; one sentence that says why. Before the first
                yield.
        """

    def later(self, question: Question) -> Prompt | None:
        """A prompt as long as one of a later round can be; None where there is no later round."""


class ReadoutKind(Protocol[Settings_contra]):
    """A way of reading under a name, as registered under the entry-point group `dicast.readouts`."""

    @property
    def name(self) -> str:
        """The readout's name. One of another package begins with `x_`."""

    def settings(self, body: jsontext.Object) -> Any:
        """Its settings from JSON: a value that is hashable, never changes, and equals what means the same.

        Raises:
            FieldError: something in the body is wrong.
        """

    def open(self, state: Content, model: Model, settings: Settings_contra) -> Readout:
        """What reads questions about a state."""
