"""The checker of histories, a Go program around porcupine: built by `make test-setup`, and by a test that finds it not built."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from support.histories.go_program import GoProgram
from support.repository import ROOT

CHECKER = GoProgram(ROOT / "tests" / "faults" / "linearizability" / "checker", "history-checker")
CHECK_SECONDS = 200


@dataclass(frozen=True)
class Verdict:
    """`status`: 0 = linearizable, 1 = not, 2 = no history, or no verdict."""

    status: int
    text: str


def check(history: Path) -> Verdict:
    """Returns the checker's verdict on a file of `history.write_history`."""
    ended = subprocess.run([CHECKER.build(), history], capture_output=True, text=True, timeout=CHECK_SECONDS, check=False)
    return Verdict(ended.returncode, ended.stdout + ended.stderr)


if __name__ == "__main__":
    CHECKER.build()
