"""The profile that a flag names."""

from __future__ import annotations

from pathlib import Path

from dicast_server.profiling.profile_file import ProfileFile
from dicast_server.readouts.profile import PROFILES, Profile


def read_profile(named: str | None) -> Profile | ProfileFile | None:
    """A profile by name, or a file of one; None where nothing is named.

    Raises:
        ValueError: it is neither; a sentence.
    """
    if named is None or named in PROFILES:
        return None if named is None else PROFILES[named]
    path = Path(named).expanduser()
    try:
        return ProfileFile.read(path)
    except ValueError as error:
        known = "" if path.exists() else f"; the profiles that have a name are {', '.join(PROFILES)}"
        raise ValueError(f"{error}{known}") from error
