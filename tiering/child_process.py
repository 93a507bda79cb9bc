"""Python programs of ours that are started as processes: never with the current folder on their import path.

`python -m` puts the folder in which it is started before everything else, so that a file `structlog.py` there would be run
instead of the library. `-P` leaves it out (Python 3.11, "Command line and environment").
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping

SAFE_PATH = "PYTHONSAFEPATH"
"""What `-P` is in the environment; children of children have it from there."""


def module_command(module: str, *arguments: str) -> list[str]:
    """Runs one of our modules with this Python."""
    return [sys.executable, "-P", "-m", module, *arguments]


def keep_current_folder_out(environment: MutableMapping[str, str] = os.environ) -> None:
    """For every Python that is started from here on, whoever starts it: Spark starts its workers with `python -m`."""
    environment[SAFE_PATH] = "1"
