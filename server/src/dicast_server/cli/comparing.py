"""What `dicast profile` prints of the ways of reading: tables beside what guessing would give."""

from __future__ import annotations

from collections.abc import Sequence

from dicast_server.profiling.comparison import Comparison, Measured, NotTaken
from dicast_server.profiling.measures import Estimate, Graded, Measures
from dicast_server.profiling.probes import ProbeSet

_NAME = 38
_TYPES = ("predicate", "choice", "score")


def heading(model: str, probe_set: ProbeSet) -> list[str]:
    """The lines above the rows, with what chance gives."""
    chance = Measures.of([_uniform(each.question.options) for each in probe_set.labelled])
    return [
        f"{model}: {len(probe_set.labelled)} questions about {len(probe_set.probes)} states; "
        "95 % intervals in brackets",
        f"{'':{_NAME}} {'accuracy':20} {'log loss':20} option mass",
        f"{'chance':{_NAME}} {chance.chance_accuracy:<20.2f} {chance.chance_log_loss:.2f}",
    ]


def row(outcome: Measured | NotTaken) -> str:
    """What one way came to, or why it was not taken."""
    name = f"{outcome.way.name:{_NAME}}"
    if isinstance(outcome, NotTaken):
        return f"{name} not taken: {outcome.reason}"
    overall = outcome.overall
    return (
        f"{name} {_estimate(overall.accuracy):20} {_estimate(overall.log_loss):20} {outcome.option_mass:.2f}"
    )


def by_type(comparison: Comparison) -> list[str]:
    """A table of accuracy and log loss for each type of question; none where nothing was measured."""
    if not comparison.measured:
        return []
    types = [name for name in _TYPES if name in comparison.measured[0].by_type]
    first = [comparison.measured[0].by_type[name] for name in types]
    return [
        _line("accuracy, log loss", types),
        _line("chance", [f"{each.chance_accuracy:.2f}, {each.chance_log_loss:.2f}" for each in first]),
        *(
            _line(each.way.name, [_short(each.by_type[name]) for name in types])
            for each in comparison.measured
        ),
    ]


def _line(name: str, cells: Sequence[str]) -> str:
    return f"{name:{_NAME}} {' '.join(f'{cell:12}' for cell in cells)}".rstrip()


def _short(measures: Measures) -> str:
    return f"{measures.accuracy.value:.2f}, {measures.log_loss.value:.2f}"


def _estimate(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _uniform(options: int) -> Graded:
    return Graded((1 / options,) * options, 0)
