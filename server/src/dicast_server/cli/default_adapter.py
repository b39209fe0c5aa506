"""The adapter that comes with dicast for the embedded model, and when it answers in the model's place."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from dicast_server.config import DEFAULT_MODEL

if TYPE_CHECKING:
    from dicast_server.service.adapter_loading import AdapterPlace

NAME = "decision"
FOLDER = Path(str(files("dicast_server"))) / "embedded_adapter"


def default_adapter(model: str, *, plain: bool) -> AdapterPlace | None:
    """The adapter that answers for a model, as `--model` names it; None where the model itself does.

    It is the embedded model's. `plain` is whether somebody asks for the model without it.
    """
    from dicast_server.service.adapter_loading import AdapterPlace

    if plain or model != DEFAULT_MODEL:
        return None
    return AdapterPlace(NAME, FOLDER)
