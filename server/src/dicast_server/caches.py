"""Where files live that are made or fetched once and kept: model files, the patched BLAS; and users' own."""

import os
from pathlib import Path

import platformdirs


def location() -> Path:
    """The cache folder's path, which may not exist yet.

    It is the user's cache folder for dicast, or what DICAST_CACHE names.
    """
    named = os.environ.get("DICAST_CACHE")
    if named:
        return Path(named).expanduser().absolute()
    return platformdirs.user_cache_path("dicast", appauthor=False)


def data_location() -> Path:
    """The path of the folder for what users made, which may not exist yet.

    It is the user's data folder for dicast, or what DICAST_DATA names.
    """
    named = os.environ.get("DICAST_DATA")
    if named:
        return Path(named).expanduser().absolute()
    return platformdirs.user_data_path("dicast", appauthor=False)


def folder() -> Path:
    """The cache folder, created if it is not there.

    Raises:
        OSError: the folder cannot be created.
    """
    path = location()
    path.mkdir(parents=True, exist_ok=True)
    return path
