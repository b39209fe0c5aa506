"""From raw scores to probabilities: softmax, orders of the options, corrections. Shared by all readouts."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from dicast_server.decisions.passes import Prompt, Scores
from dicast_server.readouts.profile import Profile


def softmax(scores: Sequence[float], temperature: float) -> tuple[float, ...]:
    """exp(score / temperature), normalised to sum to 1; float64."""
    top = max(scores)
    weights = [math.exp((score - top) / temperature) for score in scores]
    total = math.fsum(weights)
    return tuple(weight / total for weight in weights)


def shuffled(options: Sequence[int], orders: int) -> list[tuple[int, ...]]:
    """The orders in which some options are listed: as given for one, else a published shuffle each.

    Order j is Python's `random.Random(j).shuffle` of their places (OpenJev): order 0 is a shuffle too.
    """
    if orders == 1:
        return [tuple(options)]
    found = []
    for seed in range(orders):
        places = list(range(len(options)))
        random.Random(seed).shuffle(places)
        found.append(tuple(options[place] for place in places))
    return found


@dataclass(frozen=True, slots=True)
class Averaged:
    """Probabilities of some options, the mean over their orders; `spread` as `Reading.order_spread`."""

    probabilities: tuple[float, ...]
    spread: float


def average(
    options: Sequence[int], asked: Sequence[Prompt], scores: Sequence[Sequence[float]], temperature: float
) -> Averaged:
    """Softmax the scores of each order, and average per option in the order of `options`."""
    orders = []
    for prompt, values in zip(asked, scores, strict=True):
        of = dict(zip(prompt.options, softmax(values, temperature), strict=True))
        orders.append([of[option] for option in options])
    columns = list(zip(*orders, strict=True))
    mean = tuple(math.fsum(column) / len(column) for column in columns)
    return Averaged(mean, max(max(column) - min(column) for column in columns))


def corrected(scores: Sequence[Scores], priors: Sequence[Scores]) -> list[tuple[float, ...]]:
    """The scores less those of the same prompts about a state without content; as they are without priors."""
    if not priors:
        return [each.values for each in scores]
    return [
        tuple(value - before for value, before in zip(each.values, prior.values, strict=True))
        for each, prior in zip(scores, priors, strict=True)
    ]


def predicate_probability(probability: float, profile: Profile) -> float:
    """A predicate's probability under a profile: clamped, and its logit divided by the slope."""
    if profile.predicate_slope == 1.0 and profile.predicate_clamp == 0.0:
        return probability
    clamped = min(1.0 - profile.predicate_clamp, max(profile.predicate_clamp, probability))
    if clamped in (0.0, 1.0):
        return clamped
    logit = math.log(clamped / (1.0 - clamped)) / profile.predicate_slope
    return 1.0 / (1.0 + math.exp(min(-logit, 709.0)))  # beyond it exp has no double
