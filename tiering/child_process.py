"""Starts Lakeward's Python programs as processes, never with the current folder on their import path.

`python -m` puts the folder in which it is started first on the import path, so a file `structlog.py` there would run instead of the
library. `-P` leaves that folder out (Python 3.11, "Command line and environment").
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping

SAFE_PATH = "PYTHONSAFEPATH"
"""The environment variable with the effect of `-P`. Child processes inherit it."""


def module_command(module: str, *arguments: str) -> list[str]:
    """Returns the command line that runs one of Lakeward's modules with this Python."""
    return [sys.executable, "-P", "-m", module, *arguments]


def keep_current_folder_out(environment: MutableMapping[str, str] = os.environ) -> None:
    """Sets `-P` for every Python process that is started later, also by others: Spark starts its workers with `python -m`."""
    environment[SAFE_PATH] = "1"
