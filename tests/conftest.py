"""What all tests share: a clean environment, and the embedded model, fetched once."""

import os
from collections.abc import Iterator
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
        if name.startswith("DICAST_") and name not in {"DICAST_CACHE", "DICAST_DATA"}:
            monkeypatch.delenv(name)


@pytest.fixture(scope="session", autouse=True)
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """No calibration of whoever runs the tests reaches a test, nor the processes that it starts."""
    with pytest.MonkeyPatch.context() as environment:
        folder = tmp_path_factory.mktemp("data")
        environment.setenv("DICAST_DATA", str(folder))
        yield folder


@pytest.fixture
def exact_memory() -> Iterator[None]:
    """MLX counts what arrays take, whatever other tests have freed.

    It keeps freed buffers, and gives one of up to two pages more to an array that needs less.
    """
    import mlx.core as mx

    limit = mx.set_cache_limit(0)
    mx.clear_cache()
    yield
    mx.set_cache_limit(limit)


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The embedded model's file."""
    from dicast_server import caches
    from dicast_server.models import embedded

    return embedded.fetch(caches.folder())
