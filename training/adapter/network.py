"""The network that learns, in PyTorch: the model's first layers with low-rank weights, and a head over means.

The layers are transformers' own, the low-rank weights peft's. The head's formula is that of
`dicast_server.readouts.pooled_head`, which reads what is learned here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.nn import functional
from transformers import LlamaConfig, LlamaModel

from training.adapter.lessons import Forward

MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")

_NORM_EPSILON = 1e-5
_LEAST_SPREAD = 1e-3
_STATE, _ASKED, _OPTION = range(3)
_PRODUCTS = ("gate", "mix", "claim")
_HABIT = "asked"
_PARTS = {".lora_A.default.weight": ".lora_a", ".lora_B.default.weight": ".lora_b"}
"""How peft ends its matrices' names, and how mlx-lm does."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What is learned: low-rank weights of the first `layers`, a head whose products are of rank `head_rank`.

    What low-rank weights add is multiplied by `scale`. `dropout` is the share of the means' numbers that is
    left out while learning. `seed` decides what is drawn at the start.
    """

    layers: int = 10
    rank: int = 16
    scale: float = 2.0
    head_rank: int = 32
    dropout: float = 0.1
    seed: int = 0


class Network(nn.Module):  # type: ignore[misc]
    """Reads lessons: the logarithm of each option's probability."""

    def __init__(
        self,
        config: Mapping[str, Any],
        weights: Mapping[str, NDArray[Any]],
        shape: Shape,
        precision: torch.dtype = torch.bfloat16,
    ) -> None:
        """`config` is LlamaConfig's, `weights` are the model's in float32 under transformers' names.

        `precision` is what the layers are computed in; what is learned stays float32.
        """
        super().__init__()
        self.precision = precision
        torch.manual_seed(shape.seed)
        body = LlamaModel(
            LlamaConfig(
                **{**config, "num_hidden_layers": shape.layers},
                use_cache=False,
                attn_implementation="sdpa",
            )
        )
        body.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()})
        # Each token counts with root mean square 1.
        nn.init.ones_(body.norm.weight)
        lora = LoraConfig(
            r=shape.rank, lora_alpha=int(shape.scale * shape.rank), target_modules=list(MODULES)
        )
        self.body = get_peft_model(body.to(precision), lora)
        self.head = Head(body.config.hidden_size, shape)

    def forward(self, given: Forward) -> list[torch.Tensor]:
        """(options,) a question, float32."""
        counts = [len(each.spans) - 2 for each in given.questions]
        read: list[torch.Tensor] = self.head(self.means(given), counts, _kinds(given))
        return read

    def means(self, given: Forward) -> torch.Tensor:
        """The mean of the normed hidden states of each span, (spans, d) in float32."""
        device = self.head.centre.device
        low = self.precision != torch.float32
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=low):
            hidden = self.body(
                input_ids=torch.from_numpy(given.tokens).to(device),
                position_ids=torch.from_numpy(given.places).to(device),
                attention_mask=torch.from_numpy(given.visible).to(device),
            ).last_hidden_state.float()
        sums = functional.pad(hidden.cumsum(1), (0, 0, 1, 0))
        row, first, end = torch.from_numpy(given.spans).to(device).T
        return (sums[row, end] - sums[row, first]) / (end - first).clamp(min=1)[:, None]

    def look(self, forwards: Sequence[Forward]) -> None:
        """Have the head take the usual mean and spread of each kind of span from some lessons."""
        found: list[list[torch.Tensor]] = [[], [], []]
        for given in forwards:
            kinds = _span_kinds([len(each.spans) - 2 for each in given.questions])
            with torch.no_grad():
                means = self.means(given)
            for kind in (_STATE, _ASKED, _OPTION):
                found[kind].append(means[kinds == kind])
        for kind, parts in enumerate(found):
            every = torch.cat(parts)
            self.head.centre[kind] = every.mean(0)
            self.head.spread[kind] = every.std(0) + _LEAST_SPREAD

    def learned(self) -> dict[str, torch.Tensor]:
        """All that is not the model's, under the names of `state_dict`."""
        return {
            name: value for name, value in self.state_dict().items() if "lora_" in name or "head." in name
        }

    def low_rank(self) -> dict[str, NDArray[np.float32]]:
        """The learned matrices: `lora_a` (inputs, rank) and `lora_b` (rank, outputs) of each module."""
        found: dict[str, NDArray[np.float32]] = {}
        for name, value in self.body.named_parameters():
            for theirs, ours in _PARTS.items():
                if name.endswith(theirs):
                    path = name.removeprefix("base_model.model.").removesuffix(theirs)
                    found[f"model.{path}{ours}"] = _numpy(value.T)
        return found


class Head(nn.Module):  # type: ignore[misc]
    """See `PooledHead`, whose tensors these are.

    While it learns it has terms besides that know no state: what an option (`lean`), a claim, or an option to
    a question (`asked`) is worth whatever the text says. They learn the habits of the questions, so that the
    rest need not, and are left out where it answers.
    """

    def __init__(self, size: int, shape: Shape) -> None:
        super().__init__()
        rank, self.size, self.dropout = shape.head_rank, size, shape.dropout
        self.register_buffer("centre", torch.zeros(3, size))
        self.register_buffer("spread", torch.ones(3, size))
        self.likeness = nn.Parameter(torch.ones(2, size))
        for name in (*_PRODUCTS, _HABIT):
            self.register_parameter(f"{name}_in", nn.Parameter(torch.randn(rank, size) / size**0.5))
            self.register_parameter(f"{name}_out", nn.Parameter(torch.zeros(size, rank)))
        self.lean = nn.Parameter(torch.zeros(2, size))
        self.weight = nn.Parameter(torch.ones(3))
        self.offset = nn.Parameter(torch.zeros(1))

    def forward(self, means: torch.Tensor, counts: Sequence[int], kinds: Sequence[str]) -> list[torch.Tensor]:
        """The logarithm of each option's probability, a tensor a question."""
        of = _span_kinds(counts).to(means.device)
        units = functional.normalize((means - self.centre[of]) / self.spread[of], dim=1) * self.size**0.5
        units = functional.dropout(units, self.dropout, self.training)
        parts = units.split([2 + count for count in counts])
        return [
            functional.log_softmax(self._scores(part, kind), 0)
            for part, kind in zip(parts, kinds, strict=True)
        ]

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """What `PooledHead.of` takes."""
        habits = ("lean", f"{_HABIT}_in", f"{_HABIT}_out")
        return {name: _numpy(value) for name, value in self.state_dict().items() if name not in habits}

    def _scores(self, units: torch.Tensor, kind: str) -> torch.Tensor:
        state, asked, options = units[0], units[1], units[2:]
        key = (state * self.likeness[0] + self._product("mix", state)) * (
            1 + self._product("gate", asked) / self.size**0.5
        )
        if self.training:
            key = key + self._product(_HABIT, asked)
        scores = self.weight[0] * 8 / self.size * (options @ key)
        if self.training:
            scores = scores + options @ self.lean[0] / self.size**0.5
        if kind != "noul":
            return scores
        holds = (state * self.likeness[1] + self._product("claim", state)) @ asked
        true = self.weight[1] * 3 / self.size * holds + self.offset[0]
        if self.training:
            true = true + asked @ self.lean[1] / self.size**0.5
        return scores * 0.3 * self.weight[2] + torch.stack([true, torch.zeros_like(true)])

    def _product(self, name: str, units: torch.Tensor) -> torch.Tensor:
        return getattr(self, f"{name}_out") @ (getattr(self, f"{name}_in") @ units)


def _kinds(given: Forward) -> list[str]:
    return [each.kind for each in given.questions]


def _span_kinds(counts: Sequence[int]) -> torch.Tensor:
    """Of what each span is, question by question."""
    return torch.tensor([kind for count in counts for kind in (_STATE, _ASKED, *[_OPTION] * count)])


def _numpy(value: torch.Tensor) -> NDArray[np.float32]:
    return np.ascontiguousarray(value.detach().float().cpu().numpy())
