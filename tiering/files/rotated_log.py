"""Keeps a log small that another process appends to: its lines move to numbered files, and it begins anew.

The file itself stays, for the process, and a JVM behind it, hold it open to append. Lines that come in the instant between the last copy
and the cut are lost, as with every tool that cuts a file which others hold.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

MOST_BYTES = 64 << 20
KEPT = 5
"""Older files: `name.1`, the newest, to `name.5`."""


def rotate(log: Path, most_bytes: int = MOST_BYTES, kept: int = KEPT) -> bool:
    """Whether the log had grown to `most_bytes` and was moved. Raises OSError; then the log is as it was."""
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
    """With the lines that come meanwhile; for its owner alone."""
    copy.unlink(missing_ok=True)
    with log.open("rb") as source, os.fdopen(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as target:
        while source.tell() < os.fstat(source.fileno()).st_size:
            shutil.copyfileobj(source, target)


def _numbered(log: Path, number: int) -> Path:
    return log.with_name(f"{log.name}.{number}")
