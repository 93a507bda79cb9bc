"""Go programs of the tests: built by `make test-setup`, and by a test that finds one not built.

The Go toolchain is a wheel, in an environment of its own; modules are in Go's own cache, and `go.sum` has their hashes. The programs
lie in `.venv`.
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

TOOLCHAIN = Environment(ROOT / ".venv" / "go", Path(__file__).with_name("requirements.lock"), "the Go toolchain")
BUILD_SECONDS = 900
SETTINGS = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off", "CGO_ENABLED": "0"}
"""No other toolchain is fetched, and no version changes."""


@dataclass(frozen=True)
class GoProgram:
    """`sources`: a folder with go.mod; `name`: of the file in `.venv`."""

    sources: Path
    name: str

    def build(self) -> Path:
        """The program, built if its sources have changed; of two that do, the second waits. Raises SetupError."""
        program = ROOT / ".venv" / self.name
        stamp, sources_hash = program.with_suffix(".sources"), self._sources_hash()
        with (self.sources / "main.go").open() as lock:  # not go.mod, which Go itself locks
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not program.is_file() or not stamp.is_file() or stamp.read_text() != sources_hash:
                print(f"setup: building the program {self.name} for tests", file=sys.stderr)
                TOOLCHAIN.make()
                self._go("mod", "download")
                self._go("build", "-o", str(program), ".")
                stamp.write_text(sources_hash)
        return program

    def version(self, module: str) -> str:
        """The version of a module that go.mod requires."""
        lines = (self.sources / "go.mod").read_text().split("\n")
        return next(words[1].removeprefix("v") for line in lines if (words := line.removeprefix("require").split())[:1] == [module])

    def _go(self, *arguments: str) -> None:
        try:
            subprocess.run(
                [TOOLCHAIN.folder / "bin" / "go", *arguments],
                cwd=self.sources,
                env={**os.environ, **SETTINGS},
                check=True,
                capture_output=True,
                text=True,
                timeout=BUILD_SECONDS,
            )
        except (OSError, subprocess.SubprocessError) as error:
            output = str(getattr(error, "stderr", None) or error)
            raise SetupError(
                f"the program {self.name} could not be built: {output.strip()[-1_000:]}",
                hint="Run `make test-setup` where Go modules can be fetched.",
            ) from error

    def _sources_hash(self) -> str:
        digest = hashlib.sha256(TOOLCHAIN.requirements.read_bytes())
        for file in sorted(self.sources.iterdir()):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
        return digest.hexdigest()
