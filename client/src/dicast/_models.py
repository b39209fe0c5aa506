"""What a server says about the models that it serves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A prompt style with its published constants.

    Attributes:
        name: for example "stock".
        prompt_version: changes whenever the text of a prompt does.
        template_hash: SHA-256 in hexadecimal of the chat frame and the tokenizer.
        forward_tokens: the most tokens that one forward carries.
    """

    name: str
    prompt_version: str
    template_hash: str
    forward_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a request. What passes them is refused, never cut.

    Attributes:
        context_tokens: of one prompt.
        questions: of a request.
        options: of a choice, at most.
        levels: of a score, at most.
        orders: of a question, at most.
        passes: of a request that asks for more than one order, at most.
        whole_tokens: of one prompt in the mode "independent".
        message_bytes: of a request.
        json_depth: how deep JSON values may nest.
        queued_requests: that may wait for the engine.
    """

    context_tokens: int
    questions: int
    options: int
    levels: int
    orders: int
    passes: int
    whole_tokens: int
    message_bytes: int
    json_depth: int
    queued_requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BandTemperature:
    """The temperature of questions with `min_options` to `max_options` options."""

    min_options: int
    max_options: int
    temperature: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeCalibration:
    """What was found for one type of question.

    Attributes:
        question_type: "predicate", "choice" or "score".
        verdict: "calibrated"; "unchanged", where what was served stays; "no_signal", where the answers,
            fitted or not, say no more than the labels' frequencies do. Empty: the type was not there.
        rows: that it was found on.
        temperature: of the type, where its band has none.
        offset: that is added to a predicate's logit. Else 0.
        bands: of numbers of options that have temperatures of their own.
        max_errors: that `Abstain.max_error` may ask for.
    """

    question_type: str
    verdict: str
    rows: int
    temperature: float
    offset: float = 0.0
    bands: tuple[BandTemperature, ...] = ()
    max_errors: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What turns scores into probabilities.

    Attributes:
        temperature: by default: of questions that none of `types` is for.
        source: of what is applied: "server", "fitted", "profile" or "default".
        scheme: of the fit: "one", "per_type", "per_type_and_band", or "none" where nothing had to be fitted.
            Empty: there is no calibration.
        types: that the calibration says something of. Their temperatures are applied where the source is
            "fitted".
        digest: of what the calibration was made for: the name of its file.
        fitted_at: when it was made. None: there is none.
        made_for: what it was made for, a JSON object as text.
        wanted: what a calibration of this server is to be made for, a JSON object as text.
    """

    temperature: float
    source: str
    scheme: str = ""
    types: tuple[TypeCalibration, ...] = ()
    digest: str = ""
    fitted_at: datetime | None = None
    made_for: str = ""
    wanted: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The machinery below a model.

    Attributes:
        device: that MLX computes on: "cpu" or "gpu".
        blas: the matrix library of a CPU, with its version. Empty on other devices.
        blas_threads: that it uses. 0 on other devices.
        mlx_version: of the array library.
        head_path: how labels' scores are computed: "rows" or "logits".
        shared_tails: False where questions run one by one.
        costs_hash: SHA-256 in hexadecimal of the table of costs by which questions share forwards.
    """

    device: str
    blas: str
    blas_threads: int
    mlx_version: str
    head_path: str
    shared_tails: bool
    costs_hash: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCheck:
    """What the model made of a few questions with known answers.

    Attributes:
        option_mass: the least share of probability that fell on the listed labels, in [0, 1].
        right: right answers.
        asked: questions.
        predicate_direction: True where opposite states moved a predicate the right way.
    """

    option_mass: float
    right: int
    asked: int
    predicate_direction: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """What a model keeps of the states that it has read.

    Attributes:
        budget_bytes: that it may take. 0: nothing is kept.
        used_bytes: of them.
        hits: chunks that were found, since the start.
        misses: chunks that had to be computed.
        evictions: chunks that made room for others.
    """

    budget_bytes: int
    used_bytes: int
    hits: int
    misses: int
    evictions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """What was tuned for a base and is applied beside its weights.

    Attributes:
        name: what stands behind the colon in the model's id.
        base: id of the model below it.
        hash: SHA-256 in hexadecimal of its weights. Empty while it is read, or where it cannot be.
        rank: of its pairs of matrices. 0 where the hash is empty.
        modules: how many linear layers have a pair. 0 where the hash is empty.
        readout: that it was tuned for, which reads questions whose request names none.
        settings: of that readout, a JSON object as text.
        style: of the letters readout that it was tuned for: "plain" or "bracket".
        verdict: of its own evaluation against the base. Empty: none.
        made_at: when it was tuned. None: not known.
        data_hash: SHA-256 in hexadecimal of the labelled questions that it was tuned on.
    """

    name: str
    base: str
    hash: str = ""
    rank: int = 0
    modules: int = 0
    readout: str = ""
    settings: str = ""
    style: str = ""
    verdict: str = ""
    made_at: datetime | None = None
    data_hash: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A served model.

    Attributes:
        id: the real name, never a path.
        aliases: that mean this model.
        family: the architecture, for example "llama".
        description: for people.
        status: only a ready model answers.
        status_message: why a model is refused, or a warning about one that is served.
        loaded_at: when it became ready. None: it is not.
        question_types: that it answers.
        readouts: that it serves, the default one first.
        profile: in use.
        limits: of a request.
        calibration: in use.
        engine: that runs it.
        parameters: of the model.
        quantization: of the weights as stored, for example "Q4_1". Empty: none.
        self_check: outcome of the questions asked at the start. None: not done yet.
        store: of kept states; a base and its adapters share one.
        adapter: that this model is with. None: it is a base.
    """

    id: str
    aliases: tuple[str, ...]
    family: str
    description: str
    status: Literal["starting", "ready", "refused", "unspecified"]
    status_message: str
    loaded_at: datetime | None
    question_types: tuple[str, ...]
    readouts: tuple[str, ...]
    profile: Profile
    limits: Limits
    calibration: Calibration
    engine: Engine
    parameters: int
    quantization: str
    self_check: SelfCheck | None
    store: Store
    adapter: Adapter | None = None
