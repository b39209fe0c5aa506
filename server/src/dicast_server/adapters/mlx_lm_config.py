"""`adapter_config.json`: what mlx-lm reads of an adapter, so that its own tools can load one of ours."""

from __future__ import annotations

import json
import re
from typing import Any

from dicast_server.adapters.document import Description


def config_of(description: Description) -> dict[str, Any]:
    """The file's content.

    Where the same layers are adapted in each of the model's last blocks they are named within a block, as
    mlx-lm's own trainer does; else by their full paths, which its loader takes too.
    """
    blocks, keys = _last_blocks(description) or (0, list(description.modules))
    return {
        "fine_tune_type": "lora",
        "num_layers": blocks,
        "lora_parameters": {
            "rank": description.rank,
            "scale": description.scale,
            "dropout": 0.0,
            "keys": keys,
        },
    }


def text_of(description: Description) -> str:
    """The file's text."""
    return json.dumps(config_of(description), indent=1) + "\n"


def _last_blocks(description: Description) -> tuple[int, list[str]] | None:
    """How many blocks at the model's end are adapted, and what in each of them; None where they differ."""
    found: dict[int, set[str]] = {}
    starts = set()
    for module in description.modules:
        match = re.fullmatch(r"(.*?\blayers)\.(\d+)\.(.+)", module)
        if match is None:
            return None
        starts.add(match[1])
        found.setdefault(int(match[2]), set()).add(match[3])
    layers = description.base.layers
    last = set(range(layers - len(found), layers))
    if len(starts) > 1 or set(found) != last or len({frozenset(keys) for keys in found.values()}) > 1:
        return None
    return len(found), sorted(next(iter(found.values())))
