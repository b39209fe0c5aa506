"""A served model with an adapter: the same arrays and prompts, its own way of reading."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dicast_server.adapters.document import Adapter
from dicast_server.adapters.errors import AdapterRefused
from dicast_server.adapters.file import Contents
from dicast_server.models.adapted import head_of
from dicast_server.profiling.pinning import prompt_version
from dicast_server.readouts.profile import Profile
from dicast_server.readouts.readout import ReadoutKind
from dicast_server.service.loading import Served, Tuning

PROFILE = "adapter"
"""The name of the profile that an adapter brings."""


def tuned(
    base: Served, contents: Contents, name: str, number: int, readouts: Mapping[str, ReadoutKind[Any]]
) -> Served:
    """The base, as it was loaded, with an adapter; its own reader is yet to be built.

    Args:
        base: with the template's own opening of the reply.
        contents: of its folder.
        name: that it is served under.
        number: of its reader.
        readouts: that this server has.

    Raises:
        AdapterRefused: it was tuned for a template or for prompts that this server does not write, or it
            brings a head that reads no hidden states of this model.
    """
    adapter = contents.adapter
    wanted = adapter.base.template_hash
    ways = itertools.chain([base], base.openings())
    rendered = next((each for each in ways if each.model.frame.fingerprint == wanted), None)
    if rendered is None:
        raise AdapterRefused(
            f"the adapter {name} was tuned for another chat template or tokenizer ({wanted}); this model has "
            f"{base.model.frame.fingerprint}"
        )
    profile = _profile(base.profile, adapter)
    try:
        version = prompt_version(profile, readouts)
    except ValueError as error:
        raise AdapterRefused(f"the adapter {name} cannot be read here: {error}") from error
    if version != adapter.tuned_for.prompt_version:
        raise AdapterRefused(
            f"the adapter {name} was tuned for the prompts of version {adapter.tuned_for.prompt_version}; "
            f"this server writes {version}"
        )
    head = head_of(base.model, contents)
    return replace(rendered, profile=profile, tuning=Tuning(name, adapter, number), head=head)


def _profile(base: Profile, adapter: Adapter) -> Profile:
    """The way of reading that the adapter was tuned for, without constants that were measured on the base."""
    tuned_for = adapter.tuned_for
    return Profile(
        PROFILE,
        tuned_for.style,
        base.wording,
        readout=tuned_for.readout,
        correct_prior=tuned_for.settings.get("correct_prior") is True,
        settings=tuple(tuned_for.settings.items()),
    )
