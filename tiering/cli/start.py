"""Entry point of the program `lakeward`. Its commands take a second to load; Ctrl-C during that time ends it without a stack trace."""

from __future__ import annotations

import sys

INTERRUPTED = 130
"""Equal to `ExitStatus.INTERRUPTED`, whose module is not loaded yet."""


def main() -> None:
    """Runs the command and ends the process with its exit status."""
    try:
        from tiering.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    run()
