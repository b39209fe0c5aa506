"""The client's wheel: what is in it, what it asks for, and that it works alone."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

CLIENT = Path(__file__).parents[2] / "client"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by the installed hatchling."""
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(CLIENT)],
        check=True,
        capture_output=True,
    )
    (path,) = folder.glob("dicast-*.whl")
    return path


def test_it_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    packages = {name for name in names if ".dist-info/" not in name}
    assert all(name.startswith("dicast/") for name in packages)
    wanted = (
        "__init__.py",
        "py.typed",
        "_client.py",
        "cli/up.py",
        "v1/decision_pb2.py",
        "v1/decision_pb2.pyi",
    )
    assert {f"dicast/{name}" for name in wanted} <= packages
    assert not any("test" in name or name.endswith(".pyc") for name in packages)


def test_it_asks_for_grpc_and_protobuf_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        (name,) = (name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(file.read(name).decode())
    wanted = {line.split(">")[0].split("<")[0] for line in metadata.get_all("Requires-Dist", [])}
    assert wanted == {"googleapis-common-protos", "grpcio", "grpcio-status", "protobuf"}
    assert metadata["Requires-Python"] == ">=3.10"


@pytest.mark.timeout(300)
def test_it_works_alone_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True, capture_output=True)
    # The versions of this environment, so that the test asks the index for what is known to work.
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "freeze", "--exclude-editable"],
        check=True,
        capture_output=True,
        text=True,
    )
    names = ("grpcio==", "grpcio-status==", "googleapis-common-protos==", "protobuf==", "typing_extensions==")
    pins = tmp_path / "pins.txt"
    pins.write_text("\n".join(line for line in listed.stdout.splitlines() if line.startswith(names)))
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*install, "--constraint", str(pins), str(wheel)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0 and ("Connection" in done.stderr or "No matching distribution" in done.stderr):
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr
    code = (
        "import importlib.util, dicast; dicast.Client, dicast.AsyncClient; "
        "print([name for name in ('mlx', 'numpy', 'pydantic', 'fastapi') if importlib.util.find_spec(name)])"
    )
    done = subprocess.run([str(python), "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    command = str(python.with_name("dicast"))
    said = subprocess.run([command, "--help"], capture_output=True, text=True, check=True).stdout
    assert "serve a model over gRPC (needs the package dicast-server, which is not installed)" in said
    done = subprocess.run([command, "gateway"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "dicast: `dicast gateway` needs the package dicast-gateway, which is not installed\n",
    )
