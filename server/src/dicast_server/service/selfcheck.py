"""A few questions with known answers that a model is asked before it is served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dicast_server.decisions.answers import Answer, ChoiceAnswer, PredicateAnswer
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

    `option_mass` is the share of its probability that fell on the listed labels, the mean over the
    questions: a model that wants to say something else has little. `predicate_direction`: an open door is
    likelier open than a shut one.
    """

    option_mass: float
    right: int
    asked: int
    predicate_direction: bool

    @property
    def near_chance(self) -> bool:
        """Whether the answers look like guesses."""
        return not self.predicate_direction or 2 * self.right <= self.asked

    def reaches(self, least_option_mass: float) -> bool:
        """Whether the model may be served."""
        return self.option_mass >= least_option_mass


def refusal(tried: Sequence[tuple[str, SelfCheck]], least_option_mass: float) -> str:
    """Why a model must not be served.

    Args:
        tried: what its reply began with and what it made of the questions, the reply as rendered first.
        least_option_mass: what none of them reached.
    """
    (_, rendered), *others = tried
    also = "".join(f", {check.option_mass:.3g} behind {opening}" for opening, check in others)
    return (
        f"the model puts only {rendered.option_mass:.3g} of its probability on the letters of the options"
        f"{also} (least allowed: {least_option_mass:.3g}); use an instruction-tuned model, "
        "another profile, or serve it all the same with --min-option-mass 0"
    )


async def check(engine: Engine, planner: Planner) -> SelfCheck:
    """Ask the questions; the model's first requests, so that no user waits for what they warm up."""
    answers: list[list[Answer]] = []
    for request in requests():
        events = run(engine, planner.plan(request))
        answers.append([event async for event in events if isinstance(event, Answer)])
    return judge(answers)


def requests() -> list[DecisionRequest]:
    """The questions, a request a state."""
    questions = tuple(AskedQuestion(question) for question in (_OPEN, _COLOUR))
    return [DecisionRequest(state, questions) for state, _, _ in _STATES]


def judge(answers: Sequence[Sequence[Answer]]) -> SelfCheck:
    """What a model made of the questions, from its answers to each of the requests."""
    masses: list[float] = []
    right = 0
    open_probabilities: list[float] = []
    for (_, is_open, colour), given in zip(_STATES, answers, strict=True):
        for answer in given:
            masses.append(answer.diagnostics.option_mass if answer.diagnostics is not None else 0.0)
            if isinstance(answer.kind, PredicateAnswer):
                open_probabilities.append(answer.kind.probability)
                right += (answer.kind.probability >= 0.5) == is_open
            elif isinstance(answer.kind, ChoiceAnswer):
                right += answer.kind.value == colour
    finite = len(open_probabilities) == len(_STATES)
    direction = finite and open_probabilities[0] > max(open_probabilities[1:])
    return SelfCheck(sum(masses) / (2 * len(_STATES)), right, 2 * len(_STATES), direction)
