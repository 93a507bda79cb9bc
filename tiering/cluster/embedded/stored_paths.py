"""Paths that the metadata names: files of the cluster's own folder and no others, whoever wrote the metadata.

A data folder may come from somebody else, and an executor gets the paths from a service. A path out of the folder would have files
of yours read, and removed with the log's old segments.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from tiering.errors import DataCorrupt

_STORED = re.compile(r"(?:log|kv-snapshots)/[0-9]{1,18}/[0-9A-Za-z_-]{1,200}\.(?:arrow|parquet)")


def stored_path(root: Path, path: str) -> Path:
    """Where the file is. No I/O. Raises DataCorrupt for a path that Lakeward never gives."""
    if not _STORED.fullmatch(path):
        raise DataCorrupt(
            f"the metadata of the cluster's folder {root} names the file {path[:200]!r}, which is none of its own",
            hint="Restore the folder from a backup: somebody wrote into its metadata. Nothing was opened.",
        )
    return root / path


def readable_path(root: Path, path: str) -> Path:
    """The same of a file that is there to be read. Raises DataCorrupt, also for a link, a device or a pipe; OSError."""
    file = stored_path(root, path)
    if not stat.S_ISREG(os.lstat(file).st_mode):
        raise DataCorrupt(f"{file} is not a regular file", hint="A cluster's folder has no links in it. Nothing was opened.")
    return file
