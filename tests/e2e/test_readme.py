"""Every command of the README works as it is printed; the demo's own lines, too."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from running_pair import PATIENCE_S, Pair

ROOT = Path(__file__).parents[2]
BLOCKS: list[tuple[str, str]] = re.findall(
    r"^```(sh|python)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
)
MAKE = [text.split()[1] for language, text in BLOCKS if text.startswith("make ")]
ASKING = [block for block in BLOCKS if not block[1].startswith("make ")]


def run(command: list[str], **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "PYTHONWARNINGS": "", **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("language", "text"), ASKING, ids=lambda text: text.split()[0])
def test_commands_that_ask(pair: Pair, language: str, text: str) -> None:
    text = text.replace("127.0.0.1:8080", pair.http).replace("127.0.0.1:50051", pair.grpc)
    if language == "python":
        shown = run([sys.executable, "-c", text])
    else:
        if text.startswith("curl") and shutil.which("curl") is None:
            pytest.skip("no curl on this machine")
        shown = run(["sh", "-ec", text], DICAST_SERVER=pair.grpc)
    assert re.search(r"0\.\d{2,}", shown), shown


def test_the_readme_shows_what_it_promises() -> None:
    assert MAKE == ["demo", "test", "serve"]
    assert [text.split()[0] for _, text in ASKING] == [
        "curl",
        "from",
        ".tools/bin/buf",
        "from",
        ".venv/bin/dicast",
    ]


@pytest.mark.timeout(180)
def test_make_demo(tmp_path: Path, smollm2_path: Path) -> None:
    shown = run(["make", "demo"], HOME=str(tmp_path), DICAST_CACHE=str(smollm2_path.parents[1]))
    assert "to the last bit" in shown
    assert "The embedded model is small" in shown
    assert "OpenBLAS" in shown or sys.platform != "linux"


# A new session whose controlling terminal is standard input, as a shell has one; then the command.
IN_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


def test_make_serve_until_ctrl_c(smollm2_path: Path) -> None:
    terminal, inside = os.openpty()
    make = ["make", "--no-print-directory", "serve", "ARGS=--grpc-port 0 --http-port 0"]
    command = [sys.executable, "-c", IN_A_TERMINAL, *make]
    with subprocess.Popen(command, cwd=ROOT, stdin=inside, stdout=subprocess.PIPE, text=True) as process:
        os.close(inside)
        try:
            assert process.stdout is not None
            addresses = dict(process.stdout.readline().split() for _ in range(2))
            assert run([sys.executable, "-m", "dicast.cli", "models", "--server", addresses["grpc"]])
            os.write(terminal, b"\x03")
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
            os.close(terminal)


def test_make_test_runs_the_tests() -> None:
    assert "-m pytest" in run(["make", "--dry-run", "test"])


def test_links_lead_somewhere() -> None:
    pages = [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").glob("*.md"),
        *ROOT.glob("*/README.md"),
    ]
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
