"""Where adapters live that nobody gave another place."""

from __future__ import annotations

from pathlib import Path

from dicast_server import caches


def folder(model: str) -> Path:
    """The folder of a model's adapters, which may not exist yet; `model` is the model's id.

    It is `adapters` in the user's data folder or in DICAST_DATA, and there one folder a model.
    """
    # Names of the Hugging Face Hub have a slash.
    return caches.data_location() / "adapters" / model.replace("/", "--")
