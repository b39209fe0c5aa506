"""What an adapter says of itself: what it was made from, for and on. The text of `dicast.json`."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, model_validator

from dicast_server.readouts.profile import OptionStyle

FORMAT = "dicast-adapter"
VERSION = 1

MOST_RANK = 1024

POOLED = "pooled"
"""The readout that needs a head: it reads means of hidden states and no token's score."""

NAME_PATTERN = r"[a-z0-9][a-z0-9._-]{0,62}"
"""What an adapter may be called: behind the model's id and a colon it is the name that requests use."""

_Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Count = Annotated[int, Field(ge=0)]
_Share = Annotated[float, Field(ge=0.0, le=1.0)]
# In Python it is the enumeration, in the file its value.
_Style = Annotated[OptionStyle, Field(strict=False)]
_Loss = Annotated[float, Field(ge=0.0)]


def is_name(name: str) -> bool:
    """Whether an adapter may have this name."""
    return re.fullmatch(NAME_PATTERN, name) is not None


class _Shape(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, protected_namespaces=()
    )


class Base(_Shape):
    """The model that an adapter belongs to. It fits no other.

    Attributes:
        model: id of the model, for people.
        weights_hash: of the model, as `LoadedModel.weights_hash`.
        quantization: as `LoadedModel.quantization`, for people: the same weights may be computed in another
            precision elsewhere.
        template_hash: of the chat frame and the tokenizer, as `PromptFrame.fingerprint`, with the opening of
            the reply that it was tuned behind.
        layers: how many the model has.
    """

    model: str
    weights_hash: _Sha256
    quantization: str
    template_hash: _Sha256
    layers: int = Field(ge=1)


class TunedFor(_Shape):
    """The way of reading that an adapter was tuned for: its own where a request names none.

    Attributes:
        readout: name of the readout.
        settings: of that readout, in its own JSON.
        style: of the letters readout.
        prompt_version: of that readout.
    """

    readout: str
    settings: dict[str, bool | str] = {}
    style: _Style = OptionStyle.PLAIN
    prompt_version: str


class Head(_Shape):
    """What an adapter reads by instead of the model's own upper layers.

    Attributes:
        layers: the first so many of the base are run; above them is a final norm whose weight is ones.
        sha256: of its `head.safetensors`.
    """

    layers: int = Field(ge=1)
    sha256: _Sha256


class Training(_Shape):
    """How an adapter was made.

    Attributes:
        rows: labelled questions that it was tuned on.
        groups: of those rows that were kept together when some were held out.
        epochs: times that all rows were read, the last one perhaps in part.
        steps: of the optimiser.
        seed: of everything that was drawn.
        learning_rate: the highest one.
        seconds: that the tuning took.
        loss_before: mean log loss on the rows held out, in nats, of the base; null: none were held out.
        loss_after: the same with the adapter.
        accuracy_before: share of those that the base had right.
        accuracy_after: the same with the adapter.
        verdict: of the comparison, such as "better".
        more: whatever else is worth a note.
    """

    rows: _Count
    groups: _Count
    epochs: _Count
    steps: _Count
    seed: int
    learning_rate: float = Field(gt=0)
    seconds: float = Field(ge=0)
    loss_before: _Loss | None = None
    loss_after: _Loss | None = None
    accuracy_before: _Share | None = None
    accuracy_after: _Share | None = None
    verdict: str = ""
    more: dict[str, JsonValue] = {}


class Description(_Shape):
    """An adapter as its maker describes it.

    Attributes:
        name: that it was made under; the folder's name is the one that it is served under.
        base: the model below it.
        rank: of each pair of matrices.
        scale: what the product of both is multiplied by.
        modules: full paths of the linear layers that have a pair, ascending.
        tuned_for: the way of reading.
        data_sha256: of the file of labelled questions.
        made: when.
        dicast_version: that made it.
        training: how.
    """

    format: Literal["dicast-adapter"] = "dicast-adapter"
    version: Literal[1] = 1
    name: str = Field(pattern=f"^{NAME_PATTERN}$")
    base: Base
    rank: int = Field(ge=1, le=MOST_RANK)
    scale: float
    modules: tuple[str, ...] = Field(min_length=1)
    tuned_for: TunedFor
    data_sha256: _Sha256
    made: AwareDatetime
    dicast_version: str
    training: Training

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if list(self.modules) != sorted(set(self.modules)):
            raise ValueError("modules must be ascending, each once")
        return self


class Adapter(Description):
    """An adapter with the SHA-256 of its `adapters.safetensors`, and with its head, where it has one."""

    weights_sha256: _Sha256
    head: Head | None = None

    @model_validator(mode="after")
    def _read_by_its_head(self) -> Self:
        if (self.tuned_for.readout == POOLED) != (self.head is not None):
            raise ValueError(f"a head and the readout {POOLED} go together")
        if self.head is not None and self.head.layers > self.base.layers:
            raise ValueError(f"its head is above {self.head.layers} layers, and its base has fewer")
        return self

    @classmethod
    def of(cls, description: Description, weights_sha256: str, head: Head | None = None) -> Adapter:
        """A description together with the weights that it turned out to be for.

        Raises:
            ValueError: the description and the head do not go together.
        """
        fields = {name: getattr(description, name) for name in Description.model_fields}
        return cls(**fields, weights_sha256=weights_sha256, head=head)

    @property
    def hash(self) -> str:
        """What it is called everywhere: another hash is another adapter. SHA-256 in hexadecimal.

        It is that of its weights, and with a head that of both.
        """
        if self.head is None:
            return self.weights_sha256
        said = f"{self.weights_sha256} {self.head.layers} {self.head.sha256}"
        return hashlib.sha256(said.encode()).hexdigest()

    def to_json(self) -> str:
        """The text of its `dicast.json`. One without a head is as it was before there were any."""
        return self.model_dump_json(indent=1, exclude={"head"} if self.head is None else None) + "\n"
