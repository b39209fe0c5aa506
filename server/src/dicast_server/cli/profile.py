"""`dicast profile`: measures what decides how questions share forwards on this machine."""

from __future__ import annotations

import sys

from dicast_server import blas, caches
from dicast_server.cli import arguments
from dicast_server.config import ProfileSettings


def main(argv: list[str]) -> int:
    """Measure and write a table of costs; returns 0, 1 for a failure, 2 for wrong usage."""
    settings = arguments.read(ProfileSettings, argv)
    if settings is None:
        return 2
    library = blas.ensure()
    if library.warning:
        print(library.warning, file=sys.stderr)
    from dicast_server.engine.measuring import measure
    from dicast_server.models import ModelRefused
    from dicast_server.service.loading import load_served

    try:
        served = load_served(
            settings.model,
            caches.location(),
            forward_tokens=settings.forward_tokens,
            threads=settings.threads,
        )
    except ModelRefused as error:
        print(f"dicast profile: {error}", file=sys.stderr)
        return 1
    costs = measure(served.reader, list(served.labels.values()), served.model.id)
    try:
        settings.costs.write_text(costs.to_json(), "utf-8")
    except OSError as error:
        print(f"dicast profile: {settings.costs} cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    print(f"{'tokens':>7} {'ms':>9}")
    for tokens, milliseconds in costs.points:
        print(f"{tokens:>7} {milliseconds:>9.1f}")
    print(f"Written to {settings.costs}; `dicast serve --costs {settings.costs}` plans by it.")
    return 0
