"""Files that a service reads again when they have changed: one that could not be read is tried again, for what mends it need not show."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

RETRY_SECONDS = 1.0
"""Between two attempts to read files that could not be read and that look the same since."""

FileVersion = tuple[int, int, int, int]
Versions = tuple[FileVersion | None, ...]


def file_version(path: Path) -> FileVersion | None:
    """Differs between two contents of a file, and after a change of its owner or its rights; None = there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


class FileWatch:
    """Whether some files are to be read. Thread-safe."""

    def __init__(self, *files: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._files = files
        self._clock = clock
        self._lock = threading.Lock()
        self._in_force: Versions | None = None
        self._refused: Versions | None = None
        self._refused_at = 0.0

    def due(self) -> Versions | None:
        """The versions to read now, before they are read; None while those in force are the newest, or were refused a moment ago."""
        versions = tuple(file_version(file) for file in self._files)
        with self._lock:
            if versions == self._in_force:
                return None
            if versions == self._refused and self._clock() - self._refused_at < RETRY_SECONDS:
                return None
            return versions

    def accept(self, versions: Versions) -> None:
        """They were read."""
        with self._lock:
            self._in_force, self._refused = versions, None

    def refuse(self, versions: Versions) -> bool:
        """They could not be read, or are of no use. Whether that is news, and worth a line in the log."""
        with self._lock:
            is_news = versions != self._refused
            self._refused, self._refused_at = versions, self._clock()
            return is_news
