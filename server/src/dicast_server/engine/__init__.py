"""The engine: one thread, fixed forwards, views of kept prefixes, reads of the head."""

from dicast_server import blas

# Before anything here imports MLX, which then takes its matrix products from the fast library.
blas.ensure()

ENGINE_THREAD = "dicast-engine"
