"""Paths of files as the metadata has them: relative to the cluster's folder, in one of its own folders, a file and no link.

The metadata may come from somebody else, with the folder: what it names is never opened or removed elsewhere.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath

from tiering.errors import DataCorrupt

FOLDERS = ("log", "kv-snapshots")


def stored_path(root: Path, path: str) -> Path:
    """Where the file is. No I/O. Raises DataCorrupt if that is not in `root`."""
    parts = PurePosixPath(path).parts
    if len(parts) < 2 or parts[0] not in FOLDERS or ".." in parts or "\0" in path:
        raise DataCorrupt(
            f"the metadata of {root} names the file {path[:200]!r}, which is none of its own",
            hint="The metadata was changed by hand, or made by somebody else. Nothing was opened.",
        )
    return root / path


def readable_path(root: Path, path: str) -> Path:
    """The same of a file that is there to be read. Raises DataCorrupt, also for a link, a device or a pipe; OSError."""
    file = stored_path(root, path)
    if not stat.S_ISREG(os.lstat(file).st_mode):
        raise DataCorrupt(f"{file} is not a regular file", hint="A cluster's folder has no links in it. Nothing was opened.")
    return file
