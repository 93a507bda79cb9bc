"""Processes whose clock or whose syncs to disk a test changes while they run: libfaketime and libfiu, loaded before everything else.

Neither needs rights. They come from Debian's packages `faketime`, `fiu-utils` and `libfiu0`, which `./setup.sh all-tests` installs.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.running.processes import Process, wait_for

FAKETIME = "libfaketime.so.1"
LIBRARY_FOLDERS = ("/usr/lib", "/usr/local/lib")
FIU = (Path("/usr/lib/fiu/fiu_run_preload.so"), Path("/usr/lib/fiu/fiu_posix_preload.so"))
SYNCS = ("posix/io/sync/fsync", "posix/io/sync/fdatasync")
INPUT_OUTPUT_ERROR = 5
"""EIO, as of a disk that gives up."""


@dataclass(frozen=True)
class MovedClock:
    """The wall clock of processes started with `env`. Time-outs do not follow it: the monotonic clock stays true."""

    file: Path

    def __post_init__(self) -> None:
        self.move(0)

    @property
    def env(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(_faketime()),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def move(self, seconds: int) -> None:
        """Within a second, and from then on, it is so far ahead of the true one."""
        new = self.file.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.rename(self.file)  # a concurrent reader reads the old file or the new one


@dataclass
class FailingSyncs:
    """Makes fsync and fdatasync of a process started with `env` fail, from `begin` to `end`."""

    folder: Path
    process: Process | None = None
    env: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        if not all(library.is_file() for library in FIU) or shutil.which("fiu-ctrl") is None:
            pytest.skip("a failing fsync needs libfiu (Debian: fiu-utils, libfiu0)")
        self.env = {"LD_PRELOAD": " ".join(map(str, FIU)), "FIU_CTRL_FIFO": str(self.folder / "fiu")}

    def begin(self) -> None:
        """Lets every sync fail from now on."""
        self._control(*(f"enable name={name},failinfo={INPUT_OUTPUT_ERROR}" for name in SYNCS))

    def end(self) -> None:
        """The disk is well again."""
        self._control(*(f"disable name={name}" for name in SYNCS))

    def _control(self, *commands: str) -> None:
        assert self.process is not None
        pid = self.process.popen.pid
        wait_for("the process can be controlled", (self.folder / f"fiu-{pid}.in").exists)
        words = [word for command in commands for word in ("-c", command)]
        subprocess.run(["fiu-ctrl", "-f", str(self.folder / "fiu"), *words, str(pid)], check=True, capture_output=True, timeout=30)


def _faketime() -> Path:
    for folder in LIBRARY_FOLDERS:
        for library in sorted(Path(folder).glob(f"**/{FAKETIME}")):
            return library
    pytest.skip("a moved clock needs libfaketime (Debian: faketime)")
