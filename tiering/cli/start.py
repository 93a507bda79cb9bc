"""The program `lakeward`. Its commands take a second to load, and Ctrl-C ends it in that time, too, without a stack."""

from __future__ import annotations

import sys

INTERRUPTED = 130
"""`ExitStatus.INTERRUPTED`, which is not loaded yet."""


def main() -> None:
    """Runs the command; ends the process with its status."""
    try:
        from tiering.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    run()
