"""What can be asked under a name: the model, or the model with an adapter, and whether it answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from enum import Enum

from dicast_server.adapters.document import Adapter
from dicast_server.calibration.document import Key
from dicast_server.readouts.pooled import NAME as POOLED
from dicast_server.service import failures
from dicast_server.service.loading import Served
from dicast_server.service.planning import Planner
from dicast_server.service.registry import Registry
from dicast_server.service.selfcheck import SelfCheck
from dicast_server.service.temperatures import Temperatures

log = logging.getLogger(__name__)


class Status(Enum):
    """Whether a model can answer."""

    STARTING = "starting"
    READY = "ready"
    REFUSED = "refused"


class Entry:
    """A model as its callers know it.

    Attributes:
        name: of the adapter; empty for the base.
        adapter: what it says of itself, once it is read; None for the base.
        served: the model, once it is loaded; it may still be refused.
        plans: its planner, once one is tried.
        status_message: why it is refused, what it does while it starts, or what is wrong though it answers.
        self_check: what it made of the questions at its start.
        ready_since: when it could answer first, in seconds since 1970.
    """

    def __init__(self, registry: Registry, name: str = "") -> None:
        self.registry = registry
        self.name = name
        self.adapter: Adapter | None = None
        self.served: Served | None = None
        self.plans: Planner | None = None
        self.status = Status.STARTING
        self.status_message = ""
        self.self_check: SelfCheck | None = None
        self.ready_since: float | None = None
        self._in_flight = 0
        self._retired: Callable[[], None] | None = None

    @property
    def called(self) -> str:
        """What it is called in the log."""
        return f"adapter {self.name}" if self.name else "model"

    @property
    def is_new(self) -> bool:
        """Whether it has neither answered nor been refused."""
        return self.status is Status.STARTING

    def refuse(self, why: str) -> None:
        """It does not answer."""
        log.error("the %s is not served: %s", self.called, why)
        self.status = Status.REFUSED
        self.status_message = why

    def be_ready(self, served: Served) -> None:
        """It answers from now on."""
        if self.self_check is not None and self.self_check.near_chance:
            guesses = (
                f"its answers look like guesses: {self.self_check.right} of {self.self_check.asked} known "
                "answers were right at the start"
            )
            self.status_message = "; ".join(note for note in (guesses, self.status_message) if note)
            log.warning("model %s is served, but %s", served.id, guesses)
        self.status = Status.READY
        self.ready_since = time.time()

    def planner(self) -> Planner:
        """What plans its requests.

        Raises:
            Failure: UNAVAILABLE where it does not answer.
        """
        if self.status is Status.STARTING:
            raise failures.starting(self.status_message)
        if self.status is Status.REFUSED or self.plans is None:
            raise failures.model_unavailable(f"the {self.called} is not served: {self.status_message}")
        return self.plans

    def enter(self) -> None:
        """A request is in flight."""
        self._in_flight += 1

    def leave(self) -> None:
        """A request is over."""
        self._in_flight -= 1
        self._go_when_idle()

    def retire(self, gone: Callable[[], None]) -> None:
        """Nobody finds it any more: `gone` is called once no request of it is in flight."""
        self._retired = gone
        self._go_when_idle()

    def _go_when_idle(self) -> None:
        if self._retired is not None and not self._in_flight:
            gone, self._retired = self._retired, None
            gone()

    def readouts(self) -> list[str]:
        """The names of the readouts that read it, that of a question whose request names none first."""
        served = self.served
        if served is not None and served.head is not None:
            return [POOLED]
        default = served.profile.readout if served is not None else ""
        others = [name for name in self.registry.readouts if name != POOLED]
        return sorted(others, key=lambda name: name != default)

    @property
    def prompt_version(self) -> str:
        """The version of the prompts of that readout; empty until the model is loaded."""
        return self.plans.prompt_version if self.plans is not None else ""

    @property
    def temperatures(self) -> Temperatures | None:
        """What divides scores, once the model is loaded."""
        return self.plans.temperatures if self.plans is not None else None

    @property
    def wanted(self) -> Key | None:
        """What a calibration of the model is to be made for, once it answers."""
        if self.ready_since is None or self.served is None or self.plans is None:
            return None
        return self.served.reading.default_key(self.registry.readouts)
