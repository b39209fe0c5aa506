"""The server's wheel brings the adapter of the embedded model, as it lies in the sources."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SERVER = Path(__file__).parents[2] / "server"
FOLDER = "dicast_server/embedded_adapter"


def test_the_embedded_models_adapter_is_in_it(tmp_path: Path) -> None:
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(SERVER)],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("dicast_server-*.whl")
    with zipfile.ZipFile(wheel) as file:
        there = {Path(name).name for name in file.namelist() if name.startswith(f"{FOLDER}/")}
    assert there == {path.name for path in (SERVER / "src" / FOLDER).glob("*")}
