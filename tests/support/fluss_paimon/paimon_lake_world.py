"""A `FlussLakeWorld` whose lake is Paimon's: beside our rounds Fluss's own writer and committer, at a real cluster with its own plugin."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.flink.flink_committer import FlinkFailed
from support.flink.flink_on_fluss import FlinkOnFluss
from support.flink.fluss_lake_world import FlussLakeWorld
from support.fluss_paimon.flink_tiering import FlinkTiering, Record
from support.fluss_paimon.lake_files import PaimonFolder
from support.lakes.paimon_kit import PaimonKit
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.lake.paimon.lake import PaimonLake
from tiering.model.assignments import ServiceMode
from tiering.model.rounds import RecordedLakeSnapshot, RoundState
from tiering.model.tables import CHANGE_TYPE_COLUMN, OFFSET_COLUMN, TIMESTAMP_COLUMN, BucketKey, ChangeType, TableInfo
from tiering.round.steps import actions as act

KINDS = {
    ChangeType.APPEND: "APPEND_ONLY",
    ChangeType.INSERT: "INSERT",
    ChangeType.UPDATE_BEFORE: "UPDATE_BEFORE",
    ChangeType.UPDATE_AFTER: "UPDATE_AFTER",
    ChangeType.DELETE: "DELETE",
}


class FlinkOnPaimon(FlinkOnFluss):
    """An incarnation of the job, with the committer and the writer of Fluss's own plugin. Each that sleeps needs a JVM of its own."""

    def __init__(self, world: PaimonLakeWorld, tiering: FlinkTiering, table: TableInfo) -> None:
        super().__init__(world.other_client, world.other_source, world, table)
        self._tiering, self._tables = tiering, world.written

    def plan(self, stop: int | None = None) -> FlinkOnPaimon:
        """Writes its files at once, so that they are as old as the plan."""
        super().plan(stop)
        self._tiering.plan(self._tables, self._table)
        for bucket in sorted(self.ends, key=BucketKey.sort_key):
            rows = self._changes(bucket).to_pylist()
            if rows:
                partition = None if bucket.partition_id is None else (bucket.partition_id, self._names()[bucket.partition_id])
                times = [_micros(row[TIMESTAMP_COLUMN]) // 1_000 for row in rows]
                self._tiering.write(bucket.bucket_id, self._records(rows), partition, times)
        return self

    def check(self) -> FlinkOnPaimon:
        recorded = self._recorded()
        if missing := self._tiering.missing(None if recorded is None else recorded.lake_snapshot_id):
            number, _, properties = missing.partition(" ")
            path = properties.strip("{}").removeprefix("fluss-offsets=").partition(",")[0]
            self.tell_of(int(number), path)
            raise FlinkFailed(f"Fluss lacked the snapshot {number}")
        return self

    def append(self) -> FlinkOnPaimon:
        self.snapshot_id = self._tiering.commit(self.path)
        return self

    def _records(self, rows: list[dict[str, Any]]) -> list[Record]:
        kinds = [KINDS[ChangeType(row.get(CHANGE_TYPE_COLUMN, ChangeType.APPEND))] for row in rows]
        names = self._table.schema.names
        return [(row[OFFSET_COLUMN], kind, [_plain(row[name]) for name in names]) for row, kind in zip(rows, kinds, strict=True)]


def _plain(value: object) -> object:
    """Returns the value in the form that the JVM accepts: times in milliseconds, and nanoseconds beside them, dates in days."""
    if isinstance(value, datetime):
        return f"{_micros(value) // 1_000} {_micros(value) % 1_000 * 1_000}"
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def _micros(value: datetime) -> int:
    return (value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


class PaimonLakeWorld(FlussLakeWorld):
    """`kit`: pypaimon as another reader of the lake."""

    lake_format = "paimon"

    def __init__(self, folder: Path, cluster: LocalFlussCluster, flink: FlinkTiering, mode: ServiceMode = ServiceMode.SHARED) -> None:
        self.kit, self._flink = PaimonKit(cluster.folder, "warehouse"), flink
        super().__init__(folder, cluster.bootstrap_servers, mode)
        self.other_client, self.other_source = self._other_client, self._other_source

    def _open_lake(self) -> Any:
        return PaimonLake(self.kit.warehouse)

    def flink(self, table: TableInfo, tiering: FlinkTiering | None = None) -> FlinkOnPaimon:
        """An incarnation of the other service; `tiering`: its JVM."""
        return FlinkOnPaimon(self, tiering or self._flink, table)

    def folder_of(self, table: TableInfo) -> PaimonFolder:
        return PaimonFolder.of(self.kit.warehouse, table.path.database_name, table.path.table_name)

    def rows(self, table: TableInfo) -> list[dict[str, Any]]:
        """Returns the rows that pypaimon reads."""
        rows: list[dict[str, Any]] = self.kit.read(table).to_pylist()
        return rows

    def read_by_fluss(self, table: TableInfo) -> list[tuple[str, ...]]:
        """The values of the newest snapshot's rows, as Fluss's own reader reads them."""
        self._flink.plan(self.written, table)
        newest = self.folder_of(table).snapshots()[-1]["id"]
        return sorted(tuple(row[3:]) for row in self._flink.read(newest))

    def assert_told(self, table: TableInfo) -> None:
        ends = self.log_ends(table)
        newest = max(snapshot["id"] for snapshot in self.folder_of(table).snapshots())
        record = self.fluss_record(table)
        assert record is not None
        assert record == RecordedLakeSnapshot(newest, {bucket: ends[bucket] for bucket in record.offsets})
        assert {bucket: end for bucket, end in ends.items() if end} == {bucket: end for bucket, end in record.offsets.items() if end}

    def assert_exact(self, table: TableInfo) -> pa.Table:
        """Every offset of the log once, for pypaimon, and the same rows for Fluss's own reader."""
        rows = self.kit.read(table)
        offsets = sorted(zip(rows["__bucket"].to_pylist(), rows["__offset"].to_pylist(), strict=True))
        assert offsets == sorted((bucket.bucket_id, offset) for bucket, end in self.log_ends(table).items() for offset in range(end))
        values = [tuple("\\N" if row[name] is None else str(row[name]) for name in table.schema.names) for row in rows.to_pylist()]
        assert self.read_by_fluss(table) == sorted(values)
        return rows

    def tier_whole(self, table: TableInfo) -> None:
        """A round that has something to do."""
        outcome: act.RoundOutcome = self.tier(table)
        assert (outcome.state, outcome.error) == (RoundState.SUCCEEDED, None)
