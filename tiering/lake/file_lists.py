"""The rows of a lake table at one snapshot: as lists of files for other engines (`ReadableLake`), and as readers for executors (`RowScan`).

Both are optional abilities of a lake.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlparse

import pyarrow as pa

from tiering.errors import LakewardError
from tiering.lake.base import LakeView
from tiering.lake.marker import Marker
from tiering.lake.schema.column_ids import ColumnIds
from tiering.lake.schema.stored_columns import FIELD_ID_KEY as FIELD_ID_KEY
from tiering.model.reading.conditions import Condition
from tiering.model.tables import BucketKey, TableInfo

THREADS = 8
"""Files that `LocalCopies` copies at the same time."""
BUFFER_BYTES = 1 << 20

OpenLocation = Callable[[str], AbstractContextManager[Any]]
"""Opens a file of the lake as a binary stream. Raises FileNotFoundError and the lake's own errors."""


@dataclass(frozen=True)
class LakeFile:
    """A Parquet file. `location` is its name in the lake. `path` is where the file, or a copy of it, is on this machine.

    `sequence_number` orders files and deletes (Iceberg spec, "Sequence Number Inheritance"). `partition` is equal for equal partitions
    of one spec, and different for others.
    """

    location: str
    path: str
    sequence_number: int
    records: int
    partition: str
    bucket: int | None = None
    """The bucket of its rows, if the partition tells it."""
    place: str | None = None
    """Name of the partition in which readers search its rows; "" without partitions; None = only the rows tell it."""
    fields: pa.Schema | None = None
    """The columns of the file with the lake's field ids (`model.schema.field_ids`); None = the file itself has these ids."""

    @property
    def label(self) -> str:
        """The name of the file for messages: its path, or for a copy its location in the lake."""
        return self.path if urlparse(self.location).scheme in ("", "file") else self.location


@dataclass(frozen=True)
class EqualityDeletes(LakeFile):
    """A file of equality deletes. It deletes rows of older files that equal one of its rows in `columns`.

    `everywhere`: it applies to all partitions, otherwise only to its own. A column that the table no longer has is "".
    """

    columns: tuple[str, ...] = ()
    everywhere: bool = False


@dataclass(frozen=True)
class MergeRule:
    """The rule for a merge tree, whose data files have changes. Of the rows that are equal in `keys`, in files of one `partition`, the row
    with the highest number in the column `sequence` counts. It is a row of the table if its `kind` is one of `live_kinds`.

    Two rows of a key with the same highest number both count. No writer of such files makes them.
    """

    keys: tuple[str, ...]
    sequence: str
    kind: str
    live_kinds: tuple[int, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that files need for the rule, in addition to the table's columns."""
        return (*self.keys, self.sequence, self.kind)


@dataclass(frozen=True)
class FileLists:
    """The files of one snapshot. Position deletes are files of (`file_path`, `pos`)."""

    snapshot_id: int | None
    data: tuple[LakeFile, ...] = ()
    position_deletes: tuple[LakeFile, ...] = ()
    equality_deletes: tuple[EqualityDeletes, ...] = ()
    merge: MergeRule | None = None
    """Rule that merges rows of one key; None = each row of a data file that no delete file names is a row of the table."""
    has_field_ids: bool = True
    """Whether columns of files are found by their field ids; otherwise their names are the table's."""

    @property
    def all_files(self) -> list[LakeFile]:
        """The files from which readers make the rows, those with deletes included."""
        return [*self.data, *self.position_deletes, *self.equality_deletes]


@runtime_checkable
class ReadableLake(Protocol):
    """A lake whose rows other engines can read from its files."""

    def columns(self, view: LakeView) -> pa.Schema:
        """Returns the present columns of the table in order, each with FIELD_ID_KEY in its metadata."""

    def file_lists(self, view: LakeView, snapshot_id: int | None, copies_in: Path | None = None) -> FileLists:
        """Returns the files of a snapshot; None = the head. Files of a remote store are copied into `copies_in`; None = they are refused.

        Raises LakeUnavailable, InvalidArgument (an unknown snapshot, a file that is not Parquet or not on a local file system).
        """

    def marker_at(self, view: LakeView, snapshot_id: int) -> Marker | None:
        """Returns the marker of the snapshot, or of its nearest ancestor that has one. Raises MarkerCorrupt, LakeUnavailable."""


@dataclass(frozen=True)
class SourceFields:
    """The columns of a source table, then the system columns of its lake table, with the field ids of the lake table.

    A field that the lake table does not have yet has no id. `recorded` has the names of lake fields in checksums.
    """

    columns: pa.Schema
    recorded: ColumnIds


@runtime_checkable
class FollowingLake(Protocol):
    """A lake whose tables follow their sources by field id, so that the names in files may be former ones."""

    def source_fields(self, table: TableInfo, view: LakeView) -> SourceFields | None:
        """Returns the fields; None if columns are found by name. No I/O. Raises MarkerCorrupt."""

    def has_other_columns(self, table: TableInfo, view: LakeView, snapshot_id: int) -> bool:
        """Whether a reader of the snapshot by names would see other columns than the source has, such as a former name. No I/O."""


@runtime_checkable
class LakeRowReader(Protocol):
    """Reads the live rows of some lake files on an executor. Can be pickled; opens nothing before `read`."""

    @property
    def size_bytes(self) -> int:
        """The size of the files."""

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields the rows with these columns of `TableInfo.schema`, in any order of rows. A column that the files lack is null.

        Raises LakeUnavailable, DataCorrupt, ForbiddenLocation, SchemaDrift (a value does not fit the type of its column).
        """


@dataclass(frozen=True)
class BucketRows:
    """Readers of lake rows. `buckets`: those of the requested buckets of which the rows may be. No other readers have rows of them."""

    buckets: frozenset[BucketKey]
    readers: tuple[LakeRowReader, ...]


@runtime_checkable
class RowScan(Protocol):
    """A lake whose rows can be read on executors."""

    def bucket_readers(
        self,
        table: TableInfo,
        view: LakeView | None,
        snapshot_id: int,
        buckets: Mapping[BucketKey, str | None],
        left_out: Collection[BucketKey] = (),
        conditions: Sequence[Condition] = (),
    ) -> Sequence[BucketRows]:
        """Returns the readers of the live rows of a primary-key table at a snapshot, without the rows of the buckets `left_out`.

        `buckets`: those with changes in the log and those to leave out, with the names of their partitions. The changes of a bucket apply
        to its `BucketRows`. Files without a row for which all `conditions` are true may be left out.

        Raises what `row_readers` raises.
        """

    def row_readers(
        self, table: TableInfo, view: LakeView | None, snapshot_id: int, conditions: Sequence[Condition] = ()
    ) -> Sequence[LakeRowReader]:
        """Returns the readers of the live rows of a log table at a snapshot. `view` None: the lake table does not exist any more.

        Files without a row for which all `conditions` are true may be left out.

        Raises LakeUnavailable, SchemaDrift (a file that no reader of this version can read).
        """


def in_source_types(rows: pa.RecordBatch, requested: pa.Schema, misfit: Callable[[str, str], LakewardError]) -> pa.RecordBatch:
    """Returns the rows with the columns and types of `requested`. A column that the lake table does not have yet is null.

    Raises `misfit(column, problem)` if a value does not fit the type of its column.
    """
    arrays: list[Any] = []
    for column in requested:
        index = rows.schema.get_field_index(column.name)
        if index < 0:
            arrays.append(pa.nulls(rows.num_rows, column.type))
            continue
        stored = rows.column(index)
        try:
            arrays.append(stored if stored.type == column.type else stored.cast(column.type))
        except pa.ArrowInvalid as error:
            problem = f"values of the type {stored.type} that do not fit the source's type {column.type}"
            raise misfit(column.name, problem) from error
    return pa.RecordBatch.from_arrays(arrays, schema=requested)


class LocalCopies:
    """Files of a store that are copied into `folder`, for an engine that reads only local files. `fetch` copies them.

    `errors` turns the store's errors during the copy of a location into the lake's own errors.
    """

    def __init__(self, folder: Path, opened: OpenLocation, errors: Callable[[str], AbstractContextManager[None]]) -> None:
        self._folder = folder
        self._opened = opened
        self._errors = errors
        self._files: dict[str, Path] = {}

    def path_of(self, location: str) -> str:
        """Returns the future path of the copy: a number and the file's own name."""
        if location not in self._files:
            self._files[location] = self._folder / f"{len(self._files)}-{location.rsplit('/', 1)[-1]}"
        return str(self._files[location])

    def fetch(self) -> None:
        """Copies the files. A file that is not in the store is left out. Raises LakeUnavailable, ForbiddenLocation."""
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(self._copy, self._files.items()))

    def _copy(self, file: tuple[str, Path]) -> None:
        location, path = file
        with (
            self._errors(location),
            suppress(FileNotFoundError),
            self._opened(location) as source,
            path.open("xb") as target,
        ):
            shutil.copyfileobj(source, target, BUFFER_BYTES)
