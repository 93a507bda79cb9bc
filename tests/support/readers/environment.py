"""A Python environment of their own for readers that want other versions than the project has. It is made at set-up.

It is `.venv/readers`, from the pinned requirements beside this file; packages that the project has too are in the project's version
there, so that uv's cache has them already.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from support.repository import ROOT
from tiering.errors import SetupError

FOLDER = ROOT / ".venv" / "readers"
REQUIREMENTS = Path(__file__).with_name("requirements.lock")
_STAMP = FOLDER / ".lakeward-packages"


def python() -> Path:
    """The environment's interpreter. Raises SetupError if it was not made, or from other requirements."""
    if not _is_made():
        raise SetupError("the environment of the other readers of lake tables is missing or outdated", hint="Run ./setup.sh.")
    return FOLDER / "bin" / "python"


def pin(package: str) -> str:
    """The version of one of its packages."""
    pins = [line.split()[0] for line in REQUIREMENTS.read_text().splitlines() if "==" in line and not line.startswith(" ")]
    return dict(pin.split("==") for pin in pins)[package]


def make() -> None:
    """Makes it if it is not there; an interrupted one is made anew."""
    if _is_made():
        return
    print("setup: installing other readers of lake tables for tests", file=sys.stderr)
    uv = Path(sys.executable).with_name("uv")
    shutil.rmtree(FOLDER, ignore_errors=True)
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, FOLDER], check=True)
    install = [uv, "pip", "install", "-q", "--compile-bytecode", "--python", FOLDER / "bin" / "python"]
    subprocess.run([*install, "--require-hashes", "-r", REQUIREMENTS], check=True)
    _STAMP.write_text(_requirements_hash())


def _is_made() -> bool:
    return _STAMP.is_file() and _STAMP.read_text() == _requirements_hash()


def _requirements_hash() -> str:
    return hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()


if __name__ == "__main__":
    make()
