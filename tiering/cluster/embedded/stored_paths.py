"""Checks the paths in the metadata: only files of the cluster's own folder are allowed, whatever the metadata contains.

A data folder may come from another person, and an executor gets the paths from a service. A path outside of the folder could make Lakeward
read other files of the user, or remove them as old segments of the log.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from tiering.errors import DataCorrupt

_STORED = re.compile(r"(?:log|kv-snapshots)/[0-9]{1,18}/[0-9A-Za-z_-]{1,200}\.(?:arrow|parquet)")


def stored_path(root: Path, path: str) -> Path:
    """Returns the path of the file. No I/O. Raises DataCorrupt for a path that is not in Lakeward's form."""
    if not _STORED.fullmatch(path):
        raise DataCorrupt(
            f"the metadata of the cluster's folder {root} names the file {path[:200]!r}, which does not belong to it",
            hint="Restore the folder from a backup: another program changed its metadata. No file was opened.",
        )
    return root / path


def readable_path(root: Path, path: str) -> Path:
    """Returns the path of an existing regular file. Raises DataCorrupt also for a link, a device or a pipe; OSError."""
    file = stored_path(root, path)
    if not stat.S_ISREG(os.lstat(file).st_mode):
        raise DataCorrupt(f"{file} is not a regular file", hint="A cluster's folder has no links in it. The file was not opened.")
    return file
