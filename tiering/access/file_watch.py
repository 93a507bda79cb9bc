"""Detects changes of files that a service reads. A file that could not be read is tried again, because a repair may not change the file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

RETRY_SECONDS = 1.0
"""Time between two attempts to read unchanged files that could not be read."""

FileVersion = tuple[int, int, int, int]
Versions = tuple[FileVersion | None, ...]


def file_version(path: Path) -> FileVersion | None:
    """Returns a value that changes with the content, owner or rights of a file; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


class FileWatch:
    """Decides whether some files have to be read. It is thread-safe."""

    def __init__(self, *files: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._files = files
        self._clock = clock
        self._lock = threading.Lock()
        self._in_force: Versions | None = None
        self._refused: Versions | None = None
        self._refused_at = 0.0

    def due(self) -> Versions | None:
        """Returns the versions to read now; None if the versions in force are the newest, or these were just refused."""
        versions = tuple(file_version(file) for file in self._files)
        with self._lock:
            if versions == self._in_force:
                return None
            if versions == self._refused and self._clock() - self._refused_at < RETRY_SECONDS:
                return None
            return versions

    def accept(self, versions: Versions) -> None:
        """Notes that these versions were read."""
        with self._lock:
            self._in_force, self._refused = versions, None

    def refuse(self, versions: Versions) -> bool:
        """Notes that these versions could not be used. Returns whether that is new, and worth a log line."""
        with self._lock:
            is_news = versions != self._refused
            self._refused, self._refused_at = versions, self._clock()
            return is_news
