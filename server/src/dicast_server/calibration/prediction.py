"""A labelled question with the probabilities that a system gave it."""

from __future__ import annotations

from dataclasses import dataclass

from dicast_server.calibration.kinds import Kind
from dicast_server.decisions import confidence


@dataclass(frozen=True, slots=True, order=True)
class Prediction:
    """Probabilities of all options, in the question's order, and the index of the one that is right.

    A predicate's are (true, false).
    """

    id: str
    group: str
    kind: Kind
    label: int
    probabilities: tuple[float, ...]

    @property
    def chosen(self) -> int:
        """The most probable option; of equal ones the first."""
        return confidence.mode(self.probabilities)

    @property
    def right(self) -> bool:
        """Whether the most probable option is the one that is right."""
        return self.chosen == self.label

    @property
    def top(self) -> float:
        """The largest probability."""
        return max(self.probabilities)

    @property
    def certainty(self) -> float:
        """What `abstain.min_confidence` of a request compares, in [0, 1] (`decisions.answers.certainty`)."""
        match self.kind:
            case "predicate":
                return abs(2.0 * self.probabilities[0] - 1.0)
            case "choice":
                return confidence.choice_confidence(self.probabilities)
            case "score":
                return confidence.score_confidence(self.probabilities)
