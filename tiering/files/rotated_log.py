"""Keeps a log file small to which another process appends: moves its lines to numbered files and empties it.

The file itself stays, because the process, and a JVM behind it, hold it open for appending. Lines that are written between the last copy
and the cut are lost, as with every tool that truncates a file in use.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

MOST_BYTES = 64 << 20
KEPT = 5
"""Number of older files: `name.1`, the newest, to `name.5`."""


def rotate(log: Path, most_bytes: int = MOST_BYTES, kept: int = KEPT) -> bool:
    """Moves the lines if the log has at least `most_bytes`. Returns whether it did. Raises OSError; the log is unchanged then."""
    if not log.exists() or log.stat().st_size < most_bytes:
        return False
    copy = log.with_name(f"{log.name}.new")
    _copy_all(log, copy)
    for number in range(kept - 1, 0, -1):
        older = _numbered(log, number)
        if older.exists():
            older.replace(_numbered(log, number + 1))
    copy.replace(_numbered(log, 1))
    os.truncate(log, 0)
    return True


def _copy_all(log: Path, copy: Path) -> None:
    """Copies all lines, including those written during the copy, to a file that only its owner may read."""
    copy.unlink(missing_ok=True)
    with log.open("rb") as source, os.fdopen(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as target:
        while source.tell() < os.fstat(source.fileno()).st_size:
            shutil.copyfileobj(source, target)


def _numbered(log: Path, number: int) -> Path:
    return log.with_name(f"{log.name}.{number}")
