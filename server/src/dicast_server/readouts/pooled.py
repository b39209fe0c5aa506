"""The pooled readout: a head compares the options with the state and the question by their hidden states.

The model reads the prompt once. What its last layer makes of the tokens of the state, of the question and of
each option is averaged, and a head that an adapter brings makes scores of these means. Nothing is read behind
the prompt, so that no sentence says how to answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from dicast import jsontext
from dicast_server.decisions.passes import Prompt, Reading, Reads, Scores
from dicast_server.decisions.questions import Content, Predicate, Question
from dicast_server.decisions.types import only
from dicast_server.readouts.letters import state_message
from dicast_server.readouts.pooled_head import PooledHead
from dicast_server.readouts.readout import Model, Opening
from dicast_server.readouts.scores import average, shuffled
from dicast_server.readouts.texts import instructions, option_lines

NAME = "pooled"


class PooledKind:
    """Registers the pooled readout."""

    name = NAME

    def settings(self, body: jsontext.Object) -> None:
        """It has none."""
        only(body)

    def open(self, state: Content, model: Model, settings: None) -> Pooled:
        """Compare hidden states about a state."""
        return Pooled(state, model)


KIND = PooledKind()


class Pooled:
    """Reads questions about one state by the means of hidden states."""

    prompt_version = "pooled-1"

    def __init__(self, state: Content, model: Model) -> None:
        self._state = model.profile.wording.state(state)
        self._wording = model.profile.wording
        self._head = model.head

    def opening(self, question: Question | None) -> Opening:
        """That of the letters, whose prefix this shares."""
        return Opening("", state_message(self._state), prompt(self._state, "", [], ()).message)

    def read(self, question: Question, temperature: float, orders: int) -> Reads:
        """Read as `Readout.read` says.

        Raises ValueError where the model has no head.
        """
        if self._head is None:
            raise ValueError(
                "is read by a head over hidden states, which this model has not: serve an adapter with one"
            )
        lines = option_lines(question, self._wording)
        options = range(len(lines))
        asked = instructions(question, self._wording)
        prompts = [prompt(self._state, asked, lines, order) for order in shuffled(options, orders)]
        found = yield tuple(prompts)
        is_predicate = isinstance(question.type, Predicate)
        scores = [
            _scores(self._head, is_predicate, each, read) for each, read in zip(prompts, found, strict=True)
        ]
        mean = average(options, prompts, scores, temperature)
        return Reading(mean.probabilities, orders, mean.spread, scores=tuple(scores))

    def later(self, question: Question) -> None:
        """All means are read in one round."""


def prompt(state: str, asked: str, lines: Sequence[tuple[str, str]], order: Sequence[int]) -> Prompt:
    """One prompt; `lines` are the options' names and descriptions, listed in an order.

    The spans of the question and of the options begin with the space before them: it belongs to the token of
    the first word.
    """
    message = state_message(state)
    spans = [(len(message) - len(state), len(message))]

    def write(before: str, text: str) -> None:
        nonlocal message
        message += before
        spans.append((len(message), len(message) + len(text)))
        message += text

    write("\n\nQuestion:", f" {asked}")
    message += "\nOptions:"
    for option in order:
        name, description = lines[option]
        write("\n-", f" {name}: {description}" if description else f" {name}")
    return Prompt(message, (), tuple(order), spans=tuple(spans))


def _scores(head: PooledHead, is_predicate: bool, asked: Prompt, read: Scores) -> tuple[float, ...]:
    """One score an option in the order of a prompt. The head knows an option by its place in the question."""
    state, question, *listed = read.means
    of = dict(zip(asked.options, listed, strict=True))
    scores = head.scores(is_predicate, [state, question, *(of[option] for option in sorted(of))])
    return tuple(scores[option] for option in asked.options)
