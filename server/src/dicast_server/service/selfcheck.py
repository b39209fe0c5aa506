"""A few questions with known answers that a model is asked before it is served."""

from __future__ import annotations

from dataclasses import dataclass

from dicast.v1 import decision_pb2
from dicast_server.decisions.answers import Abstain, Answer, ChoiceAnswer, PredicateAnswer
from dicast_server.decisions.questions import Choice, Option, Predicate, Question
from dicast_server.engine.thread import Engine
from dicast_server.service.planning import Planner
from dicast_server.service.requests import AskedQuestion, DecisionRequest
from dicast_server.service.running import run

_OPEN = Question(0, "open", None, "Is the door open?", Predicate())
_COLOURS = ("red", "blue", "green")
_COLOUR = Question(1, "colour", None, "Which colour is the door?", Choice(tuple(map(Option, _COLOURS))))
_STATES = (
    ("The door is open. It is painted blue.", True, "blue"),
    ("The door is shut. It is painted red.", False, "red"),
    ("The door is shut. It is painted green.", False, "green"),
)


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """What a model made of the questions.

    `option_mass` is the least share of its probability that fell on the listed labels: a model that
    wants to say something else has none. `predicate_direction`: an open door is likelier open than a
    shut one.
    """

    option_mass: float
    right: int
    asked: int
    predicate_direction: bool

    @property
    def near_chance(self) -> bool:
        """Whether the answers look like guesses."""
        return not self.predicate_direction or 2 * self.right <= self.asked

    def refusal(self, least_option_mass: float) -> str | None:
        """Why the model must not be served, or None."""
        if self.option_mass >= least_option_mass:
            return None
        return (
            f"the model puts only {self.option_mass:.3g} of its probability on the letters of the options "
            f"(least allowed: {least_option_mass:.3g}); use an instruction-tuned model or another profile"
        )


async def check(engine: Engine, planner: Planner) -> SelfCheck:
    """Ask the questions; the model's first requests, so that no user waits for what they warm up."""
    masses: list[float] = []
    right = 0
    open_probabilities: list[float] = []
    for state, is_open, colour in _STATES:
        for answer in await _ask(engine, planner, state):
            masses.append(answer.diagnostics.option_mass)
            if isinstance(answer.kind, PredicateAnswer):
                open_probabilities.append(answer.kind.probability)
                right += (answer.kind.probability >= 0.5) == is_open
            elif isinstance(answer.kind, ChoiceAnswer):
                right += answer.kind.value == colour
    finite = len(open_probabilities) == len(_STATES)
    direction = finite and open_probabilities[0] > max(open_probabilities[1:])
    return SelfCheck(min(masses, default=0.0), right, 2 * len(_STATES), direction)


async def _ask(engine: Engine, planner: Planner, state: str) -> list[Answer]:
    questions = tuple(AskedQuestion(question, None) for question in (_OPEN, _COLOUR))
    request = DecisionRequest(state, questions, None, Abstain(), False, decision_pb2.DETAIL_LEVEL_UNSPECIFIED)
    work = planner.plan(request)
    return [event async for event in run(engine, work) if isinstance(event, Answer)]
