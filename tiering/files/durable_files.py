"""Files and folders that survive a power cut: the one place that syncs names to a local disk.

A file is durable once its content and its name in its folder are; a folder once its name in its parent is. So whoever makes a
folder syncs the parent of each folder that was missing, and nothing when all were there: rounds pay for it once.
"""

from __future__ import annotations

import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

TEMPORARY_SUFFIX = ".tmp"
"""Of a file that is being written; it counts for nothing."""

_making = threading.Lock()
"""Held from making a folder to the sync of its name, so that no other thread builds on a name that is not durable yet."""


def sync_folder(folder: Path) -> None:
    """Makes the names in `folder` durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path, mode: int | None = None, *, like_parent: bool = False) -> None:
    """Makes `folder` and those above it that are missing, each durably; one that is there costs a look. Raises OSError.

    `mode`: the rights of those that are made, whatever the umask; None = as the umask says. `like_parent`: those of the folder that
    each lies in.
    """
    with _making:  # also to look: what another thread has just made has neither its rights nor a durable name yet
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
    """Gives a file or folder the rights `mode`; a file system without rights of its own keeps what it has."""
    with suppress(PermissionError):
        os.chmod(path, mode)


def write_whole(final: Path, content: pa.Buffer) -> None:
    """Writes a file that is there whole or not at all. Its name is durable once its folder was synced. Raises OSError."""
    temporary = final.with_name(final.name + TEMPORARY_SUFFIX)
    with temporary.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(final)
