"""`dicast profile`: measures in which way a model is read best, and what its forwards cost here."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dicast_server import blas, caches
from dicast_server.cli import arguments, comparing
from dicast_server.config import ProfileSettings
from dicast_server.profiling.comparison import pick
from dicast_server.profiling.probes import ProbeSet
from dicast_server.profiling.profile_file import ProfileFile
from dicast_server.profiling.ways import default_way
from dicast_server.readouts.profile import profile_for
from dicast_server.service.registry import PluginError, Registry

if TYPE_CHECKING:
    from dicast_server.service.loading import Served


def main(argv: list[str]) -> int:
    """Measure, print and write; returns 0, 1 for a failure, 2 for wrong usage."""
    settings = arguments.read(ProfileSettings, argv)
    if settings is None:
        return 2
    for file in filter(None, (settings.costs, settings.write)):
        # Before minutes of measuring.
        why = "it is a folder" if file.is_dir() else "there is no such folder"
        if file.is_dir() or not file.absolute().parent.is_dir():
            print(f"dicast profile: {file} cannot be written: {why}", file=sys.stderr)
            return 1
    library = blas.ensure()
    if library.warning:
        print(library.warning, file=sys.stderr)
    from dicast_server.models import ModelRefused
    from dicast_server.service.loading import load_served

    try:
        registry = Registry.installed()
        served = load_served(
            settings.model,
            caches.location(),
            registry=registry,
            forward_tokens=settings.forward_tokens,
            threads=settings.threads,
        )
        if settings.costs is not None:
            _measure_costs(served, settings.costs)
        if settings.costs is None or settings.write is not None:
            _measure_ways(served, registry, settings.write)
    except (ModelRefused, PluginError, _UnwritableError) as error:
        print(f"dicast profile: {error}", file=sys.stderr)
        return 1
    return 0


class _UnwritableError(Exception):
    """A file cannot be written; the message names it."""


def _measure_costs(served: Served, file: Path) -> None:
    from dicast_server.engine.measuring import measure

    costs = measure(served.reader, list(served.labels.values()), served.model.id)
    _write(file, costs.to_json())
    print(f"{'tokens':>7} {'ms':>9}")
    for tokens, milliseconds in costs.points:
        print(f"{tokens:>7} {milliseconds:>9.1f}")
    print(f"Written to {file}; `dicast serve --costs {file}` plans by it.")


def _measure_ways(served: Served, registry: Registry, file: Path | None) -> None:
    from dicast_server.service.loading import identity
    from dicast_server.service.probing import compare

    model, probe_set = served.model, ProbeSet.built_in()
    # Not the profile that may come with dicast for this model: that was found by this very command.
    base = profile_for(model.id)
    default = default_way(base)
    print("\n".join(comparing.heading(model.id, probe_set)), flush=True)
    comparison = compare(
        served, registry, base, probe_set, told=lambda way: print(comparing.row(way), flush=True)
    )
    print("\n".join(["", *comparing.by_type(comparison)]))
    picked = pick(comparison.measured, default)
    print(f"\nBest: {picked.way.name}; {picked.reason}.")
    if file is None:
        return
    profile = replace(picked.way.under(base), name=model.id)
    pins = identity(model).pins(profile, registry.readouts)
    _write(file, ProfileFile.of(profile, pins, comparison).to_json())
    print(f"Written to {file}; `dicast serve --profile {file}` reads with it.")


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        raise _UnwritableError(f"{file} cannot be written: {error.strerror}") from error
