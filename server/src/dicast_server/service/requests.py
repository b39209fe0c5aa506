"""From a DecideRequest to what is to be decided, with everything that is wrong with it found at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from dicast.v1 import decision_pb2 as pb
from dicast.v1 import decision_service_pb2 as service_pb
from dicast_server.decisions.answers import Abstain
from dicast_server.decisions.questions import Question
from dicast_server.readouts.letters import LETTERS
from dicast_server.service.conditions import select
from dicast_server.service.contents import Faults, StateContent, read_state, state_hash
from dicast_server.service.limits import Limits
from dicast_server.service.questions import read_questions
from dicast_server.service.readout_choice import read_readout
from dicast_server.service.registry import ChosenReadout, Registry

MAX_ERROR = 0.5
"""Who accepts more errors than a coin makes wants no guarantee."""


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question and the readout that was asked for; None is the profile's."""

    question: Question
    readout: ChosenReadout | None = None


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """The settings of a request as a whole. A temperature of None was not said."""

    orders: int = 1
    temperature: float | None = None
    abstain: Abstain = field(default_factory=Abstain)
    isolated: bool = False
    independent: bool = False
    cache_salt: str = ""


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """A request that keeps the contract and the limits; its questions are those that are asked."""

    state: StateContent
    questions: tuple[AskedQuestion, ...]
    options: RequestOptions = field(default_factory=RequestOptions)
    state_hash: str = ""


def read_request(request: service_pb.DecideRequest, limits: Limits, registry: Registry) -> DecisionRequest:
    """Read a request.

    Raises:
        Failure: INVALID_ARGUMENT with a violation for every field at fault.
    """
    faults = Faults()
    state = read_state(request.state, faults)
    general = read_readout(request.options.readout, "options.readout", registry, faults)
    if request.options.readout.candidates.texts:
        faults.refuse(
            "options.readout.candidates.texts", "belong to one question: set them in its own readout"
        )
    options = _read_options(request.options, limits, faults)
    for index, extension in enumerate(request.extensions):
        faults.refuse(f"extensions[{index}]", f"no plugin of this server reads {extension.name!r}")
    questions = read_questions(request.questions, limits, registry, faults)
    readouts = [
        read_readout(question.readout, f"questions[{index}].readout", registry, faults)
        if question.HasField("readout")
        else general
        for index, question in enumerate(request.questions[: len(questions)])
    ]
    asked = [AskedQuestion(it, readouts[it.index]) for it in select(request.ask, questions, limits, faults)]
    # A letters question of more options than letters takes a pass a chunk.
    passes = options.orders * sum(-(-it.question.options // len(LETTERS)) for it in asked)
    if options.orders > 1 and passes > limits.passes:
        faults.limit(
            "options.orders",
            f"asks for {options.orders} orders, which is {passes} passes; at most {limits.passes} are read",
        )
    faults.check()
    assert state is not None  # or a fault was noted
    return DecisionRequest(state, tuple(asked), options, state_hash(request.state))


def read_prewarm(request: service_pb.PrewarmRequest, limits: Limits) -> tuple[StateContent, float]:
    """The state to keep, and for how many seconds to hold it.

    Raises:
        Failure: INVALID_ARGUMENT with a violation for every field at fault.
    """
    faults = Faults()
    state = read_state(request.state, faults)
    hold_s = 0.0
    if request.HasField("time_to_live"):
        hold_s = request.time_to_live.ToTimedelta().total_seconds()
        if not 0 < hold_s <= limits.max_hold_s:
            faults.refuse("time_to_live", f"is {hold_s} s; must be above 0 and at most {limits.max_hold_s} s")
    faults.check()
    assert state is not None  # or a fault was noted
    return state, hold_s


def _read_options(options: pb.DecideOptions, limits: Limits, faults: Faults) -> RequestOptions:
    orders = options.orders if options.HasField("orders") else 1
    if orders == 0:
        faults.refuse("options.orders", f"must be 1 to {limits.orders}")
    elif orders > limits.orders:
        faults.limit("options.orders", f"is {orders}; at most {limits.orders} are read")
        orders = 1
    temperature = options.temperature if options.HasField("temperature") else None
    lowest, highest = limits.min_temperature, limits.max_temperature
    if temperature is not None and not lowest <= temperature <= highest:
        faults.refuse("options.temperature", f"is {temperature}; must be a number from {lowest} to {highest}")
    if options.detail not in pb.DetailLevel.values():
        faults.refuse("options.detail", f"{options.detail} is no detail level")
    if options.mode not in pb.Mode.values():
        faults.refuse("options.mode", f"{options.mode} is no mode")
    wanted = options.abstain.max_error if options.abstain.HasField("max_error") else None
    abstain = Abstain(options.abstain.min_confidence, options.abstain.min_option_mass, wanted)
    for name, value in (
        ("min_confidence", abstain.min_confidence),
        ("min_option_mass", abstain.min_option_mass),
    ):
        if not (math.isfinite(value) and 0 <= value <= 1):
            faults.refuse(f"options.abstain.{name}", f"is {value}; must be a number from 0 to 1")
    if wanted is not None and not 0 < wanted <= MAX_ERROR:
        faults.refuse(
            "options.abstain.max_error", f"is {wanted}; must be a number above 0 and at most {MAX_ERROR}"
        )
    independent = options.mode == pb.MODE_INDEPENDENT
    return RequestOptions(orders, temperature, abstain, options.isolated, independent, options.cache_salt)
