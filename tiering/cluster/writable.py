"""Making tables and writing to them: what ingest, the demo and tests need of a cluster beside reading it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from tiering.cluster.base import TableCatalog
from tiering.model.tables import BucketKey, TableInfo, TablePath

Rows = pa.RecordBatch | pa.Table
MAX_APPEND_BYTES = 3 * 1024 * 1024
"""Of one write's Arrow stream where it goes in a message: gRPC's default limit is 4 MiB."""


@dataclass(frozen=True)
class TableSpec:
    """What a new table is made from; with a `primary_key` it is a primary-key table.

    Key columns are NOT NULL, of a type that bucket keys may have, and include the partition columns. Bucket keys are some of them;
    none given: all that are no partition columns.
    """

    schema: pa.Schema
    bucket_count: int = 1
    bucket_keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    primary_key: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class AppendedRange:
    """Where records of one write went: records `[starting_offset, stopping_offset)` of one bucket."""

    bucket: BucketKey
    starting_offset: int
    stopping_offset: int


@runtime_checkable
class WritableCluster(TableCatalog, Protocol):
    """A cluster whose tables are made and written by us. Every call may raise InvalidName."""

    @property
    def remembers_writers(self) -> bool:
        """Whether a repeated (writer_id, sequence) is known again.

        Where it is not, as on Fluss, a repeat is written once more, a write that failed may have been written in part, and the ranges
        of a write are what the logs grew by meanwhile.
        """
        ...

    @property
    def max_write_bytes(self) -> int:
        """Of one write's rows in Arrow's form. Whoever has more cuts it (`embedded.rpc.writer.LogWriter`)."""
        ...

    def check_options(self, properties: Mapping[str, str]) -> None:
        """Looks at the options of a new table before its rows are read. Raises InvalidArgument for one that is known to be wrong."""
        ...

    def create_database(self, name: str, ignore_if_exists: bool = False) -> None:
        """Raises AlreadyExists, also for a name that differs in case only."""
        ...

    def create_table(self, path: TablePath, spec: TableSpec, ignore_if_exists: bool = False) -> TableInfo:
        """The new table, under an id never used before; the existing one, whatever its columns, with `ignore_if_exists`.

        Raises UnknownDatabase, AlreadyExists, UnsupportedType (names column and type), InvalidArgument.
        """
        ...

    def drop_table(self, path: TablePath) -> None:
        """Drops table and rows. Raises UnknownTable, UnknownDatabase."""
        ...

    def alter_table(self, path: TablePath, set_properties: Mapping[str, str], add_columns: Sequence[pa.Field[Any]] = ()) -> TableInfo:
        """Sets options and adds columns behind the others, all or none; what is not named stays.

        Rows appended before, and by writers that do not know a new column, have NULL in it. A column that is there already
        with the same type is left as it is, so a repeat does no harm. Raises UnknownTable, UnknownDatabase, InvalidArgument
        (an option, a NOT NULL column, a column of that name with another type), InvalidName, UnsupportedType.
        """
        ...

    def drop_partition(self, path: TablePath, partition_name: str) -> None:
        """Drops a partition and its rows. A later append may bring the name back, under a new id.

        Raises UnknownTable, UnknownDatabase, UnknownPartition.
        """
        ...

    def append(self, path: TablePath, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """Appends `rows`, all or none, durably; the ranges they got, by partition and bucket. No rows: no ranges.

        A repeated (writer_id, sequence) appends nothing and returns the first answer's ranges, also after a restart; rows of
        partitions that were dropped since are appended again, and their ranges are new ones;
        with other rows it raises InvalidArgument. Columns are matched by name;
        those added to the table later may be left out. Partitions appear with their first row.
        Raises UnknownTable, InvalidData (names the column), InvalidArgument (too many partitions, a primary-key table).
        """
        ...

    def upsert(self, path: TablePath, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """Makes `rows` the present ones of their keys in a primary-key table, all or none, durably; the ranges of the changelog.

        A new key is logged as `+I`, a present one as `-U` (the row before) and `+U`, also when nothing differs. A key that comes
        several times in `rows`: the last row counts. Whole rows: a column added later that they leave out becomes NULL.
        Repeats, columns and partitions as with `append`. Raises as `append`; InvalidArgument for a log table.
        """
        ...

    def delete(self, path: TablePath, keys: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """Deletes the rows with `keys` (exactly the key columns) from a primary-key table, all or none, durably.

        A present key is logged as `-D` with the row before; an absent one is passed by. Repeats as with `append`, also of a
        delete that found nothing. Raises as `upsert`.
        """
        ...
