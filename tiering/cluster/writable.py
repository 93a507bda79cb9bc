"""The protocols for creating tables and writing rows: for ingest, the demo and tests, and for the statements of SQL that define tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import pyarrow as pa

from tiering.cluster.base import TableCatalog
from tiering.model.schema.changes import SchemaChange
from tiering.model.tables import BucketKey, TableInfo, TablePath

Rows = pa.RecordBatch | pa.Table
MAX_APPEND_BYTES = 3 * 1024 * 1024
"""Largest Arrow stream of one write that is sent in a message, in bytes: gRPC's default limit for a message is 4 MiB."""


@dataclass(frozen=True)
class TableSpec:
    """The definition of a new table. A table with a `primary_key` is a primary-key table.

    Key columns are NOT NULL, have a type that bucket keys may have, and include the partition columns. Bucket keys are some of the key
    columns; without any, they are all key columns that are not partition columns.
    """

    schema: pa.Schema
    bucket_count: int = 1
    bucket_keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    primary_key: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class AppendedRange:
    """The place of one write's records: the offsets `[starting_offset, stopping_offset)` of one bucket."""

    bucket: BucketKey
    starting_offset: int
    stopping_offset: int


@runtime_checkable
class WritableCluster(TableCatalog, Protocol):
    """A cluster in which Lakeward creates and writes tables. Every call may raise InvalidName."""

    @property
    def remembers_writers(self) -> bool:
        """Whether the cluster recognizes a repeated (writer_id, sequence).

        If it does not, as on Fluss, a repeated write writes its rows again, and a failed write may have written a part of its rows. The
        ranges of a write are then all offsets that were added to the logs during the write.
        """

    @property
    def max_write_bytes(self) -> int:
        """Largest size of one write's rows in Arrow's format, in bytes. A caller with more rows splits them
        (`log_writer.LogWriter`).
        """

    def check_options(self, properties: Mapping[str, str]) -> None:
        """Checks the options of a new table before its rows are read. Raises InvalidArgument for an option that is known to be wrong."""

    def create_database(self, name: str, ignore_if_exists: bool = False) -> None:
        """Creates a database. Raises AlreadyExists, also for a name that differs only in case."""

    def create_table(self, path: TablePath, spec: TableSpec, ignore_if_exists: bool = False) -> TableInfo:
        """Creates a table under a new id and returns it. With `ignore_if_exists`, returns an existing table, whatever its columns.

        Raises UnknownDatabase, AlreadyExists, UnsupportedType (names column and type), InvalidArgument.
        """

    def drop_table(self, path: TablePath) -> None:
        """Drops a table and its rows. Raises UnknownTable, UnknownDatabase."""

    def alter_table(self, path: TablePath, set_properties: Mapping[str, str], changes: Sequence[SchemaChange] = ()) -> TableInfo:
        """Sets options and changes columns, all or none; options and columns that are not named stay as they are.

        The log keeps its records as they were written, and they are read with the new columns. Older rows, and rows of writers that do not
        know a new column, have NULL in it. Adding a column that exists with the same type changes nothing, so that a repeat does no harm.
        Raises UnknownTable, UnknownDatabase, InvalidArgument (an option, or a change that `changed_schema` refuses), InvalidName,
        UnsupportedType.
        """

    def drop_partition(self, path: TablePath, partition_name: str) -> None:
        """Drops a partition and its rows. A later append may create a partition of that name again, under a new id.

        Raises UnknownTable, UnknownDatabase, UnknownPartition.
        """

    def append(self, path: TablePath, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """Appends `rows` durably, all or none. Returns their ranges by partition and bucket; none for no rows.

        A repeated (writer_id, sequence) appends nothing and returns the ranges of the first answer, also after a restart. Rows of
        partitions that were dropped since are appended again, and get new ranges. A repeat with other rows raises InvalidArgument. Columns
        are matched by name; columns that were added to the table later may be missing. The first row of a partition creates the partition.
        Raises UnknownTable, InvalidData (names the column), InvalidArgument (too many partitions, a primary-key table).
        """

    def upsert(self, path: TablePath, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """Writes `rows` as the present rows of their keys in a primary-key table, durably, all or none. Returns the ranges of the
        changelog.

        A new key is logged as `+I`, an existing one as `-U` (the row before) and `+U`, also if the row is the same. If a key comes several
        times in `rows`, the last row counts. Rows are complete: a column that was added later and is missing in `rows` becomes NULL.
        Repeats, columns and partitions work as in `append`. Raises the errors of `append`; InvalidArgument for a log table.
        """

    def delete(self, path: TablePath, keys: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """Deletes the rows with `keys` (exactly the key columns) from a primary-key table, durably, all or none.

        An existing key is logged as `-D` with the row before; a missing one is ignored. Repeats work as in `append`, also for a delete that
        found no row. Raises the errors of `upsert`.
        """


class TableDefinitions(Protocol):
    """Defines databases and tables. Every call may raise InvalidName and ClusterUnavailable."""

    def create_database(self, name: str, ignore_if_exists: bool = False) -> None:
        """Creates a database. Raises AlreadyExists."""

    def drop_database(self, name: str) -> None:
        """Drops an empty database. Raises UnknownDatabase, InvalidArgument (it has tables)."""

    def create_table(self, path: TablePath, spec: TableSpec, ignore_if_exists: bool = False) -> TableInfo:
        """Creates a table under a new id and returns it. Raises the errors of `WritableCluster.create_table`."""

    def drop_table(self, path: TablePath) -> None:
        """Drops a table and its rows. Raises UnknownTable, UnknownDatabase."""

    def alter_table(
        self, path: TablePath, set_properties: Mapping[str, str | None], changes: Sequence[SchemaChange] = (), change_id: str | None = None
    ) -> TableInfo:
        """Sets options, or resets them with None, and changes columns. Raises the errors of `WritableCluster.alter_table`."""

    def add_partitions(self, path: TablePath, names: Sequence[str]) -> None:
        """Creates the missing ones of these partitions. Raises UnknownTable, UnknownDatabase, InvalidArgument (too many)."""

    def drop_partition(self, path: TablePath, partition_name: str) -> None:
        """Drops a partition and its rows. Raises UnknownTable, UnknownDatabase, UnknownPartition."""


@runtime_checkable
class DefiningCluster(Protocol):
    """A cluster in which the coordinator defines tables."""

    @property
    def definitions(self) -> TableDefinitions:
        """Defines databases and tables of the cluster."""
