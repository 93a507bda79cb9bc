"""Which files make up a lake table's rows at one snapshot: for engines that read them without the lake's own reader."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable
from urllib.parse import urlparse

import pyarrow as pa

from tiering.lake.base import LakeView
from tiering.lake.marker import Marker

FIELD_ID_KEY = b"PARQUET:field_id"
"""As pyarrow names it in a field's metadata."""


@dataclass(frozen=True)
class LakeFile:
    """A Parquet file. `location` is how the lake names it, `path` where it, or a copy, is on this machine.

    `sequence_number` orders files and deletes (Iceberg spec, "Sequence Number Inheritance"); `partition` tells equal
    partitions of one spec from others.
    """

    location: str
    path: str
    sequence_number: int
    records: int
    partition: str
    bucket: int | None = None
    """Of its rows, if the partition tells it."""
    place: str | None = None
    """Name of the partition in which readers look for its rows, "" without partitions; None = the rows alone tell."""

    @property
    def label(self) -> str:
        """What to call it: its path, and of a copy where the lake has it."""
        return self.path if urlparse(self.location).scheme in ("", "file") else self.location


@dataclass(frozen=True)
class EqualityDeletes(LakeFile):
    """Rows of older files of the same partition, or of all, that equal one of its rows in `columns` are dead.

    A column that the table does not have any more is "".
    """

    columns: tuple[str, ...] = ()
    everywhere: bool = False


@dataclass(frozen=True)
class MergeRule:
    """Of a merge tree, whose data files have changes: of the rows that are equal in `keys`, in files of one `partition`, the one with the
    highest number in the column `sequence` counts. It is a row of the table if its `kind` is one of `live_kinds`.

    Rows of the highest number that are there twice both count: nothing that writes such files makes them.
    """

    keys: tuple[str, ...]
    sequence: str
    kind: str
    live_kinds: tuple[int, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """What files have for it beside the table's columns."""
        return (*self.keys, self.sequence, self.kind)


@dataclass(frozen=True)
class FileLists:
    """The files of one snapshot. Position deletes are files of (`file_path`, `pos`)."""

    snapshot_id: int | None
    data: tuple[LakeFile, ...] = ()
    position_deletes: tuple[LakeFile, ...] = ()
    equality_deletes: tuple[EqualityDeletes, ...] = ()
    merge: MergeRule | None = None
    """None = each row of a data file that no delete file names is a row of the table."""
    has_field_ids: bool = True
    """Whether columns are found in files by the ids of their fields; else their names are the table's."""


@runtime_checkable
class ReadableLake(Protocol):
    """A lake whose rows other engines can read from its files."""

    def columns(self, view: LakeView) -> pa.Schema:
        """The columns that the table has now, in order, each with FIELD_ID_KEY in its metadata."""
        ...

    def file_lists(self, view: LakeView, snapshot_id: int | None, copies_in: Path | None = None) -> FileLists:
        """The files of a snapshot; None = the head. Those of a store are copied into the folder `copies_in`; None = they are refused.

        Raises LakeUnavailable, InvalidArgument (no such snapshot, a file that is not Parquet or not on a local file system).
        """
        ...

    def marker_at(self, view: LakeView, snapshot_id: int) -> Marker | None:
        """The marker of the snapshot, or of the nearest one before it that has one. Raises MarkerCorrupt, LakeUnavailable."""
        ...
