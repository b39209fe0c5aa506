"""What all tests share: a clean environment, and the embedded model, fetched once."""

import os
from pathlib import Path

import hypothesis
import pytest

from dicast_server import blas

# Before any test module imports MLX, which takes its matrix products from what is loaded by then.
blas.ensure()

# How long an example takes is the machine's affair: no test asserts a time.
hypothesis.settings.register_profile("dicast", deadline=None)
hypothesis.settings.load_profile("dicast")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the machine reaches a test."""
    for name in list(os.environ):
        if name.startswith("DICAST_") and name != "DICAST_CACHE":
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The embedded model's file."""
    from dicast_server import caches
    from dicast_server.models import embedded

    return embedded.fetch(caches.folder())
