"""Asks a loaded model the questions of a probe set in every way of reading, on the thread that loaded it.

Each way is read as it would be served: behind the first opening of the reply after which the start-up check
passes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

from dicast_server.decisions.answers import Answer, ChoiceAnswer, PredicateAnswer, Refused, ScoreAnswer
from dicast_server.engine.reader import Reader, Tally, alone
from dicast_server.profiling.comparison import LEAST_OPTION_MASS, Comparison, Measured, NotTaken
from dicast_server.profiling.measures import Graded, Measures
from dicast_server.profiling.probes import Labelled, Probe, ProbeSet
from dicast_server.profiling.ways import WAYS, Way
from dicast_server.readouts.profile import Profile
from dicast_server.service.failures import Failure
from dicast_server.service.loading import Served
from dicast_server.service.planning import Planner
from dicast_server.service.registry import Registry
from dicast_server.service.requests import AskedQuestion, DecisionRequest, RequestOptions
from dicast_server.service.selfcheck import judge, requests


class _UnreadError(Exception):
    """A question of the set was not answered; the message says why."""


def compare(
    served: Served,
    registry: Registry,
    profile: Profile,
    probe_set: ProbeSet,
    *,
    ways: Sequence[Way] = WAYS,
    told: Callable[[Measured | NotTaken], None] = lambda outcome: None,
) -> Comparison:
    """Measure all ways under a profile's wording and constants; `told` hears of each as it is done."""
    measured: list[Measured] = []
    not_taken: list[NotTaken] = []
    for way in ways:
        outcome = _read(replace(served, profile=way.under(profile)), registry, way, probe_set)
        told(outcome)
        if isinstance(outcome, Measured):
            measured.append(outcome)
        else:
            not_taken.append(outcome)
    return Comparison(probe_set.hash, measured, not_taken)


def _read(served: Served, registry: Registry, way: Way, probe_set: ProbeSet) -> Measured | NotTaken:
    """Ask the whole set in one way. A way that cannot read one of its questions is not taken."""
    by_type: dict[str, list[Graded]] = {}
    masses: list[float] = []
    try:
        planner = _planner(served, registry)
        for probe in probe_set.probes:
            for labelled, answer in _ask(served.reader, planner, way, probe):
                graded = Graded(_probabilities(answer), labelled.right)
                by_type.setdefault(labelled.type, []).append(graded)
                masses += [answer.diagnostics.option_mass] if answer.diagnostics is not None else []
    except _UnreadError as error:
        return NotTaken(way, str(error))
    except Failure as failure:
        return NotTaken(way, _reason(failure))
    return Measured(
        way,
        Measures.of([each for graded in by_type.values() for each in graded]),
        {type_: Measures.of(graded) for type_, graded in by_type.items()},
        fmean(masses),
    )


def _planner(rendered: Served, registry: Registry) -> Planner:
    """What plans a way's requests; that of the template's own opening where the check passes behind none."""
    for served in itertools.chain([rendered], rendered.openings()):
        planner = served.planner(registry)
        answers = [_answers(served.reader, planner, request) for request in requests()]
        if judge(answers).reaches(LEAST_OPTION_MASS):
            return planner
    return rendered.planner(registry)


def _answers(reader: Reader, planner: Planner, request: DecisionRequest) -> list[Answer]:
    return [answer for step in alone(reader.read(planner.plan(request), Tally())) for answer in step]


def _ask(reader: Reader, planner: Planner, way: Way, probe: Probe) -> list[tuple[Labelled, Answer]]:
    """Each question about one state and its answer, in the order of the questions."""
    questions = tuple(AskedQuestion(each.question) for each in probe.questions)
    request = DecisionRequest(probe.state, questions, RequestOptions(orders=way.orders))
    answers = sorted(_answers(reader, planner, request), key=lambda answer: answer.question.index)
    return [(probe.questions[answer.question.index], answer) for answer in answers]


def _probabilities(answer: Answer) -> tuple[float, ...]:
    match answer.kind:
        case PredicateAnswer(probability=probability):
            return probability, 1.0 - probability
        case ChoiceAnswer(probabilities=probabilities) | ScoreAnswer(probabilities=probabilities):
            return probabilities
        case Refused(message=message):
            raise _UnreadError(message)
        case other:
            raise _UnreadError(f"{other} is no answer with probabilities")


def _reason(failure: Failure) -> str:
    """Why a question cannot be read; a request of ours has no other faults."""
    if not failure.violations:
        return str(failure)
    first = failure.violations[0]
    return f"a {'question' if first.field.startswith('questions') else first.field} {first.description}"
