"""CREATE, ALTER and DROP of databases, tables and partitions: each is one transaction of the metadata, followed by the changes of files."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tiering.clock import Clock
from tiering.cluster.embedded.kv.primary_key_tables import PrimaryKeyTables
from tiering.cluster.embedded.kv.snapshot_files import SNAPSHOT_FOLDER
from tiering.cluster.embedded.log.bucketing import Bucketing, bucketing_for
from tiering.cluster.embedded.log.log import Log
from tiering.cluster.embedded.log.segments import LOG_FOLDER, partition_tombstone, table_tombstone, write_tombstone
from tiering.cluster.embedded.metadata import lease_rows, table_rows
from tiering.cluster.embedded.metadata.database import Metadata
from tiering.cluster.embedded.metadata.lake_record import insert_dropped, read_lake_record
from tiering.cluster.embedded.metadata.listing import TableListing
from tiering.cluster.embedded.stored_cluster import StoredCluster
from tiering.cluster.embedded.stored_paths import stored_path
from tiering.cluster.table_options import check_documented_option
from tiering.cluster.writable import TableSpec
from tiering.errors import ClusterUnavailable, DataCorrupt, InvalidArgument
from tiering.lake.table_options import TABLE_OPTIONS, TableOption
from tiering.model.names import check_database, table_path
from tiering.model.tables import TableInfo, TablePath


class AlterableCluster(StoredCluster):
    """Adds all changes of the catalog. Readers see each change as a whole, through the listing that marks the touched tables.

    Implements `TableCatalog`, `WritableCluster` and `TableOptionSetting`.
    """

    def __init__(
        self,
        root: Path,
        metadata: Metadata,
        log: Log,
        primary_key_tables: PrimaryKeyTables,
        clock: Clock,
        check_lake: Callable[[TableInfo], None] | None,
    ) -> None:
        """`check_lake` raises BadRequest for a table that its lake cannot hold; None = there is no lake to ask."""
        super().__init__(root, metadata, log)
        self.log = log
        self.primary_key_tables = primary_key_tables
        self._listing = TableListing(metadata)
        self._clock = clock
        self._check_lake = check_lake or (lambda _: None)

    def tables(self, database_name: str | None = None) -> Sequence[TableInfo]:
        """Returns tables, sorted by path; the same list object while no table was created, changed or dropped. Implements
        `TableCatalog.tables`.
        """
        return self._listing.all() if database_name is None else self._listing.of(check_database(database_name))

    def table(self, path: TablePath) -> TableInfo:
        check_path(path)
        return self._listing.find(path)

    def create_database(self, name: str, ignore_if_exists: bool = False) -> None:
        check_database(name)
        with self.metadata.write() as connection:
            table_rows.insert_database(connection, name, ignore_if_exists)

    def create_table(self, path: TablePath, spec: TableSpec, ignore_if_exists: bool = False) -> TableInfo:
        check_path(path)
        with self._listing.altering() as (connection, touched):
            created = table_rows.insert_table(connection, path, spec, ignore_if_exists, self._clock.now())
            if created.is_new and created.info.lake_enabled:
                self._check_lake(created.info)
            touched.add(created.info.table_id)
        return created.info

    def drop_table(self, path: TablePath) -> None:
        check_path(path)
        table_id = self._listing.find(path).table_id
        with self.primary_key_tables.exclusive(table_id):
            with self._listing.altering() as (connection, touched):
                touched.add(table_id)
                table_rows.delete_table(connection, path, table_id)
                lease_rows.end_empty(connection)
                self._bury(table_tombstone(self.root, table_id))
            # Best effort: the table is dropped already, and the next start removes what is left.
            with contextlib.suppress(OSError):
                self.primary_key_tables.forget(table_id)
                shutil.rmtree(self.root / LOG_FOLDER / str(table_id), ignore_errors=True)
                shutil.rmtree(self.root / SNAPSHOT_FOLDER / str(table_id), ignore_errors=True)

    def drop_partition(self, path: TablePath, partition_name: str) -> None:
        check_path(path)
        table_id = self._listing.find(path).table_id
        with self.primary_key_tables.exclusive(table_id), self.metadata.write() as connection:
            insert_dropped(connection, path, partition_name)
            partition_id, paths = table_rows.delete_partition(connection, path, table_id, partition_name)
            lease_rows.end_empty(connection)
            self._bury(partition_tombstone(self.root, table_id, partition_id))
        with contextlib.suppress(OSError, DataCorrupt):
            for segment in paths:
                stored_path(self.root, segment).unlink(missing_ok=True)

    def _bury(self, tombstone: Path) -> None:
        """Writes the tombstone before the drop is committed, so that a reader who misses a segment afterwards finds the reason. After a
        crash in between, `folder.sweep` removes it.
        """
        try:
            write_tombstone(tombstone)
        except OSError as error:
            raise ClusterUnavailable(f"cannot write {tombstone}: {error}", hint="Check that the disk is not full.") from error

    def alter_table(self, path: TablePath, set_properties: Mapping[str, str], add_columns: Sequence[pa.Field[Any]] = ()) -> TableInfo:
        return self._alter_table(path, set_properties, add_columns)

    def set_table_option(self, path: TablePath, name: str, value: str | None, *, dry_run: bool = False) -> TableInfo:
        check_documented_option(name)
        return self._alter_table(path, {name: value}, dry_run=dry_run)

    def _alter_table(
        self, path: TablePath, options: Mapping[str, str | None], add_columns: Sequence[pa.Field[Any]] = (), *, dry_run: bool = False
    ) -> TableInfo:
        """Sets options, or resets them to their defaults with None, and adds columns, as a whole or not at all."""
        check_path(path)
        with self._listing.altering() as (connection, touched):
            stored = table_rows.find_table(connection, path)
            before = stored.info
            table_rows.insert_columns(connection, path, add_columns)
            info = table_rows.update_properties(connection, path, options, self._clock.now())
            fixed = [option for option in TABLE_OPTIONS.values() if option.only_before_lake_table]
            changed = [option for option in fixed if option.of(info.properties) != option.of(before.properties)]
            if changed and read_lake_record(connection, info.table_id) is not None:
                raise _other_lake_table(changed[0], info, before)
            _check_bucketing(stored, info)
            # A table that an older version accepted may still be altered in other ways, for example to disable its lake.
            if info.lake_enabled and (not before.lake_enabled or changed or info.schema != before.schema):
                self._check_lake(info)
            if dry_run:
                connection.rollback()
            else:
                touched.add(info.table_id)
        return info


def _check_bucketing(stored: table_rows.StoredTable, info: TableInfo) -> None:
    """Raises InvalidArgument for a lake format whose readers would look for rows in other buckets."""
    required = bucketing_for(info.bucket_keys, info.lake_format)
    if info.bucket_count > 1 and stored.bucketing is not required and Bucketing.PAIMON in (stored.bucketing, required):
        raise InvalidArgument(
            f"the lake format of {info.path} cannot become {info.lake_format}: its rows are in buckets by the formula {stored.bucketing}, "
            f"which readers of that format do not know",
            hint="Create a new table with that format, and load it.",
            table_id=info.table_id,
        )


def _other_lake_table(option: TableOption[str], info: TableInfo, before: TableInfo) -> InvalidArgument:
    """Returns the error for an option that the lake table took over when it was created."""
    kind = option.name.rpartition(".")[2]
    now, former = option.of(info.properties), option.of(before.properties)
    return InvalidArgument(
        f"the lake {kind} of {info.path} cannot become {now}: its lake table is {former} already",
        hint=f"Create a new table with that {kind}, and load it.",
        table_id=info.table_id,
    )


def check_path(path: TablePath) -> None:
    """Raises InvalidName for a path with an invalid name."""
    table_path(path.database_name, path.table_name)
