"""The cache folder is the user's, or the one that DICAST_CACHE names."""

from pathlib import Path

import platformdirs
import pytest

from dicast_server import caches


def test_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DICAST_CACHE", raising=False)
    assert caches.location() == platformdirs.user_cache_path("dicast", appauthor=False)


def test_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = tmp_path / "a" / "b"
    monkeypatch.setenv("DICAST_CACHE", str(named))
    assert caches.location() == named
    assert not named.exists()
    assert caches.folder() == named
    assert named.is_dir()
