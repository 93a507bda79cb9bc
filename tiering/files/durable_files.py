"""Writes files and folders that survive a power cut. Only this module syncs names to a local disk.

A file is durable after its content and its name in its folder were synced; a folder after its name in its parent was synced. So code that
creates a folder syncs the parent of each folder that was missing. If all folders existed, it syncs nothing, so that only the first round
pays for this.
"""

from __future__ import annotations

import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

TEMPORARY_SUFFIX = ".tmp"
"""The suffix of a file that is being written. Readers ignore such a file."""

_making = threading.Lock()
"""Held from the creation of a folder until its name is synced, so that no other thread relies on a name that is not durable yet."""


def sync_folder(folder: Path) -> None:
    """Makes the names in `folder` durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path, mode: int | None = None, *, like_parent: bool = False) -> None:
    """Creates `folder` and all missing folders above it, each durably. An existing folder costs one look. Raises OSError.

    `mode`: the permissions of the created folders, whatever the umask; None: by the umask. `like_parent`: each created folder gets the
    permissions of its parent.
    """
    with _making:  # also for the look: a folder just created by another thread has neither its permissions nor a durable name yet
        missing: list[Path] = []
        above = folder
        while not above.is_dir():
            missing.append(above)
            above = above.parent
        for new in reversed(missing):
            new.mkdir(exist_ok=True)
            rights = stat.S_IMODE(new.parent.stat().st_mode) if like_parent else mode
            if rights is not None:
                set_mode(new, rights)
            sync_folder(new.parent)


def set_mode(path: Path | int, mode: int) -> None:
    """Sets the permissions of a file or folder. On a file system without permissions of its own, nothing changes."""
    with suppress(PermissionError):
        os.chmod(path, mode)


def write_whole(final: Path, content: pa.Buffer) -> None:
    """Writes a file atomically: it exists completely or not at all. Its name is durable after its folder is synced. Raises OSError."""
    temporary = final.with_name(final.name + TEMPORARY_SUFFIX)
    with temporary.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(final)
