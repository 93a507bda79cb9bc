"""A Python environment of their own for readers that want other versions than the project has. `make test-setup` makes it.

It is `.venv/readers`, from the pinned requirements beside this file; packages that the project has too are in the project's version
there, so that uv's cache has them already. A test that finds none makes it, which takes minutes on a machine without that cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from support.repository import ROOT
from tiering.errors import SetupError

INSTALL_SECONDS = 1_500
"""For all downloads."""
TEST_SECONDS = INSTALL_SECONDS + 300
"""For a test that may have to make it first."""


@dataclass(frozen=True)
class Environment:
    """`folder`: where it is; `requirements`: a file of pinned requirements, with hashes; `purpose`: what is in it, in a sentence."""

    folder: Path
    requirements: Path
    purpose: str = "other readers of lake tables"

    @property
    def python(self) -> Path:
        """Returns the interpreter of the environment. Creates the environment the first time."""
        return self.folder / "bin" / "python"

    def make(self) -> bool:
        """Makes it if it is not there, or outdated, or an interrupted one; whether it did. Of two that do, the second waits.

        Raises SetupError.
        """
        if self._is_made():
            return False
        with self.requirements.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            if self._is_made():
                return False
            print(f"setup: installing {self.purpose} for tests", file=sys.stderr)
            self._install()
        return True

    def _install(self) -> None:
        uv = Path(sys.executable).with_name("uv")
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            _run(uv, "venv", "-q", "--python", sys.executable, self.folder)
            install = (uv, "pip", "install", "-q", "--compile-bytecode", "--python", self.python)
            _run(*install, "--require-hashes", "-r", self.requirements)
        except (OSError, subprocess.SubprocessError) as error:
            output = getattr(error, "stderr", None) or error
            raise SetupError(
                f"the environment of {self.purpose} could not be made in {self.folder}: {str(output).strip()[-1_000:]}",
                hint="Run `make test-setup` where a package index can be reached.",
            ) from error
        self._stamp.write_text(self._requirements_hash())

    def pin(self, package: str) -> str:
        """Returns the version of one of its packages."""
        pins = [line.split()[0] for line in self.requirements.read_text().splitlines() if "==" in line and not line.startswith(" ")]
        return dict(pin.split("==") for pin in pins)[package]

    @property
    def _stamp(self) -> Path:
        return self.folder / ".lakeward-packages"

    def _is_made(self) -> bool:
        return self._stamp.is_file() and self._stamp.read_text() == self._requirements_hash()

    def _requirements_hash(self) -> str:
        return hashlib.sha256(self.requirements.read_bytes()).hexdigest()


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True, timeout=INSTALL_SECONDS)


READERS = Environment(ROOT / ".venv" / "readers", Path(__file__).with_name("requirements.lock"))
DUCKDB = Environment(ROOT / ".venv" / "duckdb", Path(__file__).parent / "duckdb" / "requirements.lock", "DuckDB with its Iceberg extension")
"""DuckDB's extensions on PyPI end at 1.5.5, and need that version of DuckDB."""
CHDB = Environment(ROOT / ".venv" / "chdb", Path(__file__).parent / "chdb" / "requirements.lock", "chDB")
"""chDB unpacks to half a gigabyte, so that only `support.readers.page chdb` makes its environment."""
TRINO = Environment(ROOT / ".venv" / "trino", Path(__file__).parent / "trino" / "requirements.lock", "Trino's Python client")
"""Only `support.readers.page trino` makes it."""
