"""Reads the files that the metadata names: only files of the cluster's own folder, whatever the metadata contains, and only as published.

A data folder may come from another person, and an executor gets the paths from a service. A path outside of the folder could make Lakeward
read other files of the user, or remove them as old segments of the log.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from isal.isal_zlib import crc32  # zlib's CRC-32, five times as fast: it uses special instructions of the processor

from tiering.errors import ClusterUnavailable, DataCorrupt

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


def read_published(
    root: Path, path: str, published: tuple[int, int], where: str, corrupt: Callable[[str], DataCorrupt], base: Path
) -> pa.Buffer:
    """Returns the content of a file, after a check against its `published` size and CRC-32. `where` describes the file.

    Raises `corrupt` of the damage, FileNotFoundError, and ClusterUnavailable also if the folder `base` is missing.
    """
    try:
        with pa.OSFile(str(readable_path(root, path)), "rb") as file:
            actual_bytes, content = file.size(), file.read_buffer(published[0])
    except FileNotFoundError as error:
        if not base.is_dir():
            hint = "Every executor must be able to read the cluster's folder under the same path."
            raise ClusterUnavailable(f"the cluster's folder {root} does not exist", hint=hint) from error
        raise
    except OSError as error:
        raise ClusterUnavailable(f"cannot read the {where}: {error}") from error
    check_whole(content, actual_bytes, published, corrupt)
    return content


def check_whole(content: pa.Buffer, actual_bytes: int, published: tuple[int, int], corrupt: Callable[[str], DataCorrupt]) -> None:
    """Raises `corrupt` for a file whose size or bytes have changed since it was published."""
    size_bytes, checksum = published
    if (actual_bytes, content.size) != (size_bytes, size_bytes):
        raise corrupt(f"has {actual_bytes} bytes instead of {size_bytes}")
    if crc32(content) != checksum:
        raise corrupt("does not match its checksum")
