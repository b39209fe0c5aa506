"""An adapter on disk: a folder that is written at once, and refused with a reason where it is not whole.

It holds `adapters.safetensors` and `adapter_config.json`, which mlx-lm reads too, and `dicast.json`, which
says what the other two are. `head.safetensors` is there where `dicast.json` names it. A `calibration.json`
beside them is the adapter's own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from dicast_server.adapters import mlx_lm_config
from dicast_server.adapters.document import FORMAT, VERSION, Adapter, Description, Head
from dicast_server.adapters.errors import AdapterFileError

DOCUMENT = "dicast.json"
WEIGHTS = "adapters.safetensors"
HEAD = "head.safetensors"
CONFIG = "adapter_config.json"
CALIBRATION = "calibration.json"

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Contents:
    """An adapter as its folder holds it: the bytes of its `adapters.safetensors` and `head.safetensors`."""

    adapter: Adapter
    weights: bytes
    head: bytes | None = None


def write(
    folder: Path,
    description: Description,
    weights: bytes | Callable[[Path], None],
    head: tuple[int, bytes] | None = None,
) -> Adapter:
    """Write an adapter: what was in the folder stays whole until the new one is.

    Args:
        folder: the adapter's own, whose parents are made where they are missing. A calibration that lies in
            it was made for the adapter that goes, and goes with it.
        description: what it is.
        weights: the content of `adapters.safetensors`, or what writes that file where it is told to.
        head: how many layers of the base are below the head, and the content of `head.safetensors`.

    Raises:
        AdapterFileError: the folder cannot be written to. What `weights` raises besides OSError is passed on.
        ValueError: a head without the readout `pooled`, or the other way round.
    """
    # Beside the folder, because a rename is atomic within a file system alone.
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _recover(folder)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        if callable(weights):
            weights(temporary / WEIGHTS)
        else:
            (temporary / WEIGHTS).write_bytes(weights)
        named = None
        if head is not None:
            layers, content = head
            (temporary / HEAD).write_bytes(content)
            named = Head(layers=layers, sha256=hashlib.sha256(content).hexdigest())
        adapter = Adapter.of(description, _sha256(temporary / WEIGHTS), named)
        (temporary / CONFIG).write_text(mlx_lm_config.text_of(adapter), "utf-8")
        (temporary / DOCUMENT).write_text(adapter.to_json(), "utf-8")
        for path in temporary.iterdir():
            _sync(path)
        _sync(temporary)
        _put(temporary, folder)
    except OSError as error:
        raise AdapterFileError(f"{folder} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return adapter


def check_writable(folder: Path) -> None:
    """Find before any work whether an adapter could be written to a folder; makes its parents.

    Raises:
        AdapterFileError: it could not.
    """
    trial = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        trial.mkdir(exist_ok=True)
        trial.rmdir()
    except OSError as error:
        raise AdapterFileError(f"{folder} cannot be written: {error.strerror or error}") from error


def read(folder: Path) -> Adapter:
    """Read what an adapter is, and check that its files are the ones that it was written with.

    Raises:
        AdapterFileError: a file is missing, cut off or another one, or a later version of dicast wrote it.
    """
    return read_contents(folder).adapter


def read_contents(folder: Path) -> Contents:
    """The same, with the content of its files, of which the hashes were taken. Raises as `read`.

    A `head.safetensors` that the document does not name is somebody else's and is not read.
    """
    adapter = _document(folder)
    for name in (WEIGHTS, CONFIG, *([HEAD] if adapter.head is not None else [])):
        if not (folder / name).is_file():
            raise AdapterFileError(f"the adapter {folder.name} is not whole: it has no {name}")
    weights = _content(folder, WEIGHTS, adapter.weights_sha256)
    head = None if adapter.head is None else _content(folder, HEAD, adapter.head.sha256)
    return Contents(adapter, weights, head)


def is_being_replaced(folder: Path) -> bool:
    """Whether an adapter is away for the moment in which another one takes its place."""
    return _old(folder).exists() and not folder.exists()


def _content(folder: Path, name: str, sha256: str) -> bytes:
    """A file's bytes, which must be those of a hash."""
    content = _guarded((folder / name).read_bytes, folder, name)
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise AdapterFileError(
            f"the {name} of the adapter {folder.name} is cut off or not its own: its SHA-256 is {found}, "
            f"and {DOCUMENT} names {sha256}"
        )
    return content


def _document(folder: Path) -> Adapter:
    if (folder / DOCUMENT).exists() and not (folder / DOCUMENT).is_file():
        # Reading a pipe would wait for whoever writes to it.
        raise AdapterFileError(f"the {DOCUMENT} of the adapter {folder.name} is no file")
    data = _guarded((folder / DOCUMENT).read_bytes, folder, DOCUMENT)
    try:
        tree: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise AdapterFileError(f"the {DOCUMENT} of the adapter {folder.name} is cut off: {error}") from None
    if not isinstance(tree, dict) or tree.get("format") != FORMAT:
        raise AdapterFileError(f"the {DOCUMENT} of the adapter {folder.name} is no adapter's")
    version = tree.get("version")
    if isinstance(version, int) and version > VERSION:
        raise AdapterFileError(
            f"the adapter {folder.name} has version {version}, and this dicast reads {VERSION}: tune it "
            "again or update"
        )
    try:
        return Adapter.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise AdapterFileError(
            f"the {DOCUMENT} of the adapter {folder.name} is not whole: {where}: {first['msg']}"
        ) from None


def _put(new: Path, folder: Path) -> None:
    """Put a whole folder in another's place. That takes two renames: for a moment none is there."""
    old = _old(folder)
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        with contextlib.suppress(OSError):
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
    _sync(folder.parent)


def _recover(folder: Path) -> None:
    """Put back what a writer left aside that was ended between its two renames."""
    if is_being_replaced(folder):
        _old(folder).rename(folder)


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _sync(path: Path) -> None:
    """Have a file or a folder on the disk itself."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _guarded(read: Callable[[], Found], folder: Path, name: str) -> Found:
    try:
        return read()
    except OSError as error:
        raise AdapterFileError(
            f"the {name} of the adapter {folder.name} cannot be read: {error.strerror}"
        ) from error
