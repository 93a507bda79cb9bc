"""Measures the files below a folder of a lake: the bytes on disk, and the bytes that were written, from the new files after each round."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from pathlib import Path


class FileKind(StrEnum):
    """Kind of a file of a lake table, from its name alone."""

    DATA = "data"
    """Parquet: rows and deletes."""
    CHANGELOG = "changelog"
    """Parquet: all changes of a primary-key table of Paimon, beside the rows."""
    TABLE_METADATA = "table metadata"
    """`metadata.json` of Iceberg, snapshots of Paimon."""
    MANIFEST = "manifests"
    """Manifests, lists of manifests, and indexes."""
    OTHER = "other"


METADATA = (FileKind.TABLE_METADATA, FileKind.MANIFEST)


def kind_of(path: str) -> FileKind:
    """The kind of the file at this path."""
    name, folder = os.path.basename(path), os.path.basename(os.path.dirname(path))
    if name.endswith(".parquet"):
        return FileKind.CHANGELOG if "changelog-" in name else FileKind.DATA
    if name.endswith(".metadata.json") or folder == "snapshot":
        return FileKind.TABLE_METADATA
    if name.endswith(".avro") or folder in ("manifest", "index", "statistics"):
        return FileKind.MANIFEST
    return FileKind.OTHER


def files_below(folder: str) -> Iterator[os.DirEntry[str]]:
    """All files in the folder and below it. A file or folder that is deleted meanwhile is left out."""
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from files_below(entry.path)
        else:
            yield entry


def sizes_by_kind(folder: Path) -> tuple[Counter[FileKind], Counter[FileKind]]:
    """How many files of each kind there are now, and their bytes."""
    files, sizes = Counter[FileKind](), Counter[FileKind]()
    for entry in files_below(str(folder)):
        kind = kind_of(entry.path)
        files[kind] += 1
        sizes[kind] += entry.stat().st_size
    return files, sizes


class WrittenBytes:
    """Bytes of the files below a folder that are new since the last look. Files that were deleted in between are missed.

    New files get the time of the simulated clock: what deletes files by their age sees it pass. Snapshot files of Paimon keep theirs: it
    tells their readers that the file is the one that they have read, and they are not deleted by their age.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._known: set[str] = set()

    def look(self, now: datetime) -> Counter[FileKind]:
        """Bytes by kind."""
        written, there = Counter[FileKind](), set[str]()
        for entry in files_below(self._folder):
            there.add(entry.path)
            if entry.path not in self._known:
                written[kind_of(entry.path)] += entry.stat().st_size
                if os.path.basename(os.path.dirname(entry.path)) != "snapshot":
                    os.utime(entry.path, (now.timestamp(), now.timestamp()))
        self._known = there
        return written
