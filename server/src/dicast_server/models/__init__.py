"""Models: fetching, loading, their tokenizers and the prompt around a message."""

from dicast_server import blas

# Before anything here imports MLX, which then takes its matrix products from the fast library.
blas.ensure()

from dicast_server.models.errors import ModelRefused  # noqa: E402

__all__ = ["ModelRefused"]
