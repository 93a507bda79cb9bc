"""The checker of histories, a Go program around porcupine: built by `make test-setup`, and by a test that finds it not built.

The Go toolchain is a wheel, in an environment of its own; modules are in Go's own cache, and `go.sum` has their hashes. The program
lies in `.venv`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from support.readers.environment import Environment
from support.repository import ROOT
from tiering.errors import SetupError

SOURCES = ROOT / "tests" / "faults" / "linearizability" / "checker"
PROGRAM = ROOT / ".venv" / "history-checker"
TOOLCHAIN = Environment(ROOT / ".venv" / "go", Path(__file__).with_name("requirements.lock"), "the Go toolchain of the history checker")
BUILD_SECONDS = 300
CHECK_SECONDS = 200
SETTINGS = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off", "CGO_ENABLED": "0"}
"""No other toolchain is fetched, and no version changes."""


@dataclass(frozen=True)
class Verdict:
    """`status`: 0 = linearizable, 1 = not, 2 = no history, or no verdict."""

    status: int
    text: str


def check(history: Path) -> Verdict:
    """Returns the checker's verdict on a file of `history.write_history`."""
    ended = subprocess.run([build(), history], capture_output=True, text=True, timeout=CHECK_SECONDS, check=False)
    return Verdict(ended.returncode, ended.stdout + ended.stderr)


def build() -> Path:
    """The program, built if its sources have changed; of two that do, the second waits. Raises SetupError."""
    stamp, wanted = PROGRAM.with_suffix(".sources"), _sources_hash()
    with (SOURCES / "main.go").open() as held:  # not go.mod, which Go itself locks
        fcntl.flock(held, fcntl.LOCK_EX)
        if not PROGRAM.is_file() or not stamp.is_file() or stamp.read_text() != wanted:
            print("setup: building the checker of histories for tests", file=sys.stderr)
            TOOLCHAIN.make()
            _go("mod", "download")
            _go("build", "-o", str(PROGRAM), ".")
            stamp.write_text(wanted)
    return PROGRAM


def _go(*arguments: str) -> None:
    try:
        subprocess.run(
            [TOOLCHAIN.folder / "bin" / "go", *arguments],
            cwd=SOURCES,
            env={**os.environ, **SETTINGS},
            check=True,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        output = str(getattr(error, "stderr", None) or error)
        raise SetupError(
            f"the checker of histories could not be built: {output.strip()[-1_000:]}",
            hint="Run `make test-setup` where Go modules can be fetched.",
        ) from error


def _sources_hash() -> str:
    digest = hashlib.sha256(TOOLCHAIN.requirements.read_bytes())
    for file in sorted(SOURCES.iterdir()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    build()
