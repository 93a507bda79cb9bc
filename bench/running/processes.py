"""Python processes that a bench starts and ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

END_SECONDS = 20
"""How long a process may take to end once it is told to."""


@contextmanager
def python_process(*arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """This Python with these arguments, its output in `log`; ended at the end."""
    with log.open("wb") as out:
        started = subprocess.Popen([sys.executable, *arguments], stdout=out, stderr=subprocess.STDOUT)
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            started.kill()
