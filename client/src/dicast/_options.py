"""Settings of a request: readouts, calibration temperature, detail, abstention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Letters:
    """Lists the options under letters and reads the letters' scores.

    Attributes:
        style: how an option's line is written: `A) name` or `[A] name`. None: the profile's style.
        correct_prior: subtracts the letters' scores after a state without content. None: the
            profile's choice.
    """

    style: Literal["plain", "bracket"] | None = None
    correct_prior: bool | None = None


@dataclass(frozen=True, slots=True)
class Direct:
    """Reads labels after a JSON prompt.

    Attributes:
        hide_names: shows descriptions without the options' names.
    """

    hide_names: bool = False


@dataclass(frozen=True, slots=True)
class Candidates:
    """Scores a text per option.

    Attributes:
        scoring: one token a candidate, or all of its tokens. None: the model's own choice.
        normalize_length: divides a sequence's log-probability by its number of tokens.
        correct_prior: subtracts the candidate's score after a state without content.
        texts: what the reply would be for each option, in the order of the question's options (a predicate's
            are true, false); in a question's own readout alone. Empty: the options' names.

    Example:
        >>> late = Candidates(texts=["It is late.", "It is in time."])
    """

    scoring: Literal["single_token", "sequence"] | None = None
    normalize_length: bool = False
    correct_prior: bool = False
    texts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Plugin:
    """A readout of a server's plugin.

    Attributes:
        name: as the plugin registered it; it begins with `x_`.
        settings: the readout's own, an object that is written as JSON.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)


Readout: TypeAlias = "Letters | Direct | Candidates | Plugin"
"""A way of reading a decision out of a model's scores."""


@dataclass(frozen=True, slots=True)
class Abstain:
    """Turns an uncertain answer into a refusal.

    Attributes:
        min_confidence: in [0, 1]; below it a question is refused. A predicate counts |2p - 1|.
        min_option_mass: in [0, 1]; the least share of the model's probability on the listed options.
        max_error: in (0, 0.5]; the largest share of errors among answered questions, for which the server's
            calibration has a threshold: `Model.calibration` lists those of each type. A request fails where a
            question has none. None: any.
    """

    min_confidence: float = 0.0
    min_option_mass: float = 0.0
    max_error: float | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of a request. None leaves the choice to the server or to the model's profile.

    Attributes:
        readout: of all questions.
        orders: in which each question's options are read and averaged, 1 to 32. None: 1.
        temperature: of the calibration, 0.05 to 20: p = softmax(scores / temperature).
        detail: how much of the reading comes back as `diagnostics`. None: nothing.
        seed: of whatever a readout draws.
        cache_salt: keeps this request's prefixes apart from those of other salts. Not shown by repr.
        abstain: turns uncertain answers into refusals. None: never.
        isolated: reads one question a forward, so that neighbours cannot move even the last bits.
        mode: "shared" reads a state once for all questions, "independent" every prompt whole, in a forward of
            its own: slow, for reference. None: shared.
        extensions: settings of a server's plugins, by name.
    """

    readout: Readout | None = None
    orders: int | None = None
    temperature: float | None = None
    detail: Literal["none", "basic", "full"] | None = None
    seed: int | None = None
    cache_salt: str = field(default="", repr=False)
    abstain: Abstain | None = None
    isolated: bool = False
    mode: Literal["shared", "independent"] | None = None
    extensions: Mapping[str, Any] = field(default_factory=dict)
