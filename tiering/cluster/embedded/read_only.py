"""An embedded cluster's folder, read while nothing runs, or beside a running coordinator: never written to.

What is read is one moment a question. Segments are immutable; one that the log's retention deletes meanwhile is an error
that says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa

from tiering.clock import RandomIds, SystemClock
from tiering.cluster.embedded.kv.snapshot_files import files_exist
from tiering.cluster.embedded.log.log import Log
from tiering.cluster.embedded.log.split_reader import EmbeddedSplitReader, ListedRange, open_reader
from tiering.cluster.embedded.metadata import table_rows
from tiering.cluster.embedded.metadata.database import FILE_NAME, FORMAT_VERSION, Metadata, facts
from tiering.cluster.embedded.metadata.lake_record import read_lake_record
from tiering.cluster.embedded.metadata.lease_rows import list_leases
from tiering.cluster.embedded.metadata.partitions import list_partitions
from tiering.errors import SetupError
from tiering.files.sqlite_files import distrust, read_only_url
from tiering.model.leases import KvSnapshotLease
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, Partition, TableInfo, TablePath

ALL = -1


class OfflineCluster:
    """The part of a `Cluster` that only reads. Raises SetupError: no such folder, made by another version."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        file = self._root / FILE_NAME
        if not file.is_file():
            raise SetupError(f"{self._root} holds no embedded cluster: {FILE_NAME} is missing", hint="Name a Lakeward data folder.")
        engine = sa.create_engine(read_only_url(file))
        try:
            distrust(engine)
            with engine.connect() as connection:
                known = dict(connection.execute(sa.select(facts.c.name, facts.c.value)).all())
        except sa.exc.SQLAlchemyError as error:
            engine.dispose()
            raise SetupError(f"cannot read {file}: {error}", hint="Is it a Lakeward data folder?") from error
        version = int(known.get("format_version", "0"))
        if version != FORMAT_VERSION:
            engine.dispose()
            newer = version > FORMAT_VERSION
            raise SetupError(
                f"{self._root} was written by {'a newer' if newer else 'an older'} version (format {version}, known {FORMAT_VERSION})",
                hint="Upgrade Lakeward." if newer else "Start `lakeward up` on it once: it brings the folder up to date.",
            )
        self._metadata = Metadata(engine, known["cluster_id"])
        self._log = Log(self._root, self._metadata, SystemClock(), RandomIds())

    @property
    def cluster_id(self) -> str:
        return self._metadata.cluster_id

    def close(self) -> None:
        """Lets go of the file."""
        self._metadata.close()

    def databases(self) -> Sequence[str]:
        """As `Cluster.databases`."""
        with self._metadata.read() as connection:
            return table_rows.list_databases(connection)

    def tables(self, database_name: str | None = None) -> Sequence[TableInfo]:
        """As `Cluster.tables`."""
        with self._metadata.read() as connection:
            return table_rows.list_tables(connection, database_name)

    def table(self, path: TablePath) -> TableInfo:
        """As `Cluster.table`."""
        with self._metadata.read() as connection:
            return table_rows.find_table(connection, path).info

    def partitions(self, table: TableInfo) -> Sequence[Partition]:
        """As `Cluster.partitions`."""
        with self._metadata.read() as connection:
            return tuple(list_partitions(connection, table.table_id, 0, ALL))

    def offsets(self, table: TableInfo) -> Mapping[BucketKey, BucketOffsets]:
        """As `Cluster.offsets`."""
        return self._log.offsets(table.table_id)

    def oldest_timestamps(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, datetime]:
        """As `Cluster.oldest_timestamps`."""
        return self._log.oldest_timestamps(table.table_id, offsets)

    def leases(self) -> Sequence[KvSnapshotLease]:
        """As `Cluster.leases`."""
        with self._metadata.read() as connection:
            return list_leases(connection, lambda snapshot: files_exist(self._root, snapshot.files))

    def reader(self, table: TableInfo, split: TieringLogSplit) -> EmbeddedSplitReader:
        """As `Cluster.reader`, of log splits."""
        bounds = self._log.bounds(table.table_id, split.bucket)

        def listed(bucket: BucketKey, start: int, stop: int) -> ListedRange:
            segments = self._log.segments(table.table_id, bucket, start, stop)
            return ListedRange(str(self._root), segments, self._log.refused(table.table_id, bucket))

        return open_reader(table, split, bounds, listed)

    def lake_snapshot(self, table: TableInfo) -> RecordedLakeSnapshot | None:
        """As `Cluster.lake_snapshot`."""
        with self._metadata.read() as connection:
            return read_lake_record(connection, table.table_id)
