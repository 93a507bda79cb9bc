"""A whole deployment in one process whose one table changes its columns: the embedded cluster with its files, and a real lake.

Beside it, a model in plain Python holds the rows that cluster and lake must have, also at former snapshots of the lake table.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.background import tick
from support.evolving.row_model import Row, complete_row, converted_model, plain_text
from support.fresh.union_reads import PlannedRead, planned_read
from support.lake_kinds.kinds import LakeKind
from support.on_call import call, next_action
from support.upkeep.aged_world import AgedWorld
from support.worlds.lake_world import FRESHNESS_S
from support.worlds.validated import check, faults
from tiering.clock import RandomIds
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import TableSpec
from tiering.errors import SourceChanged
from tiering.lake.file_lists import LakeRowReader, RowScan
from tiering.model.reading.scans import ReadPart, ReadScan
from tiering.model.rounds import RoundState
from tiering.model.schema.changes import SchemaChange
from tiering.model.tables import TableInfo, TablePath
from tiering.model.upkeep import UpkeepOrder

LOG_TTL_S = 100 * FRESHNESS_S
"""Retention of the log: longer than the rounds of a story, so that only `cut_log` cuts it."""
REGIONS = 3
KIND = "_change_type"
Rows = list[dict[str, Any]]


@dataclass
class FormerSnapshot:
    """A snapshot of the lake table, and the rows that it must have."""

    snapshot_id: int
    columns: pa.Schema
    """Columns of the source when the snapshot was committed."""
    own: Rows
    """The rows with the columns of then."""
    rows: Rows
    """The rows with the present columns."""


@dataclass
class OpenRead:
    """A fresh read that was planned, and the rows that it must have, with the present columns."""

    read: PlannedRead
    rows: Rows


class StoredEvolvingWorld(AgedWorld):
    """A table in two buckets, and in partitions if `is_partitioned`: a log table, or a primary-key table."""

    def __init__(
        self,
        folder: Path,
        kind: LakeKind,
        schema: pa.Schema,
        *,
        has_key: bool = False,
        options: Mapping[str, str] | None = None,
        is_partitioned: bool = False,
    ) -> None:
        super().__init__(folder, kind)
        self.path = TablePath("sales", "orders")
        self._is_partitioned = is_partitioned
        region = [pa.field("region", pa.string(), nullable=False)] if is_partitioned else []
        keys = ("id", "region") if is_partitioned else ("id",)
        properties = {
            "table.datalake.enabled": "true",
            "table.datalake.freshness": f"{FRESHNESS_S} s",
            "table.log.ttl": f"{LOG_TTL_S} s",
            "table.kv.snapshot.interval": "365 d",
            **kind.options,
            **(options or {}),
        }
        spec = TableSpec(
            pa.schema([*schema, *region]),
            2,
            () if has_key else ("id",),
            properties=properties,
            primary_key=keys if has_key else (),
            partition_keys=("region",) if is_partitioned else (),
        )
        self.storage.create_database("sales", ignore_if_exists=True)
        self.storage.create_table(self.path, spec)
        tick(self.coordinator)
        self.rows: Rows = []
        """The rows of the source, with its present columns."""
        self.archived: Rows = []
        """The rows of dropped partitions that the lake has, with the present columns of the source."""
        self.tiered: Rows = []
        """The rows that the lake must have now, with the present columns of the source."""
        self.records: Rows = []
        """The records of the log as the changelog shows them, with the present columns of the source and `_change_type`."""
        self._snapshots: list[FormerSnapshot] = []
        self._reads: list[OpenRead] = []
        self._regions = list(range(REGIONS))
        self._next_region = REGIONS
        self._sequence_number = 0
        self._log_is_whole, self._has_dropped = True, False

    @property
    def info(self) -> TableInfo:
        """The table as it is now."""
        return self.storage.table(self.path)

    def further_steps(self, chance: random.Random) -> Sequence[Callable[[], None]]:
        """Returns the steps of a story that only this world has."""
        steps: list[Callable[[], None]] = [self.upkeep, self.open_read, self.restart_all, lambda: self.lose_lake(chance)]
        if self.info.primary_key:
            steps.append(self.take_snapshots)
        if self._is_partitioned:
            steps.append(lambda: self.drop_partition(chance.randrange(REGIONS)))
        return steps

    def change(self, *changes: SchemaChange) -> TableInfo:
        """Changes the columns of the table."""
        before = self.info.schema
        table = self.storage.alter_table(self.path, {}, changes)

        def converted(rows: Rows) -> Rows:
            return converted_model(rows, before, table.schema)

        self.rows, self.archived, self.tiered = converted(self.rows), converted(self.archived), converted(self.tiered)
        kinds = [record[KIND] for record in self.records]
        self.records = [_record(kind, row) for kind, row in zip(kinds, converted(self.records), strict=True)]
        for snapshot in self._snapshots:
            snapshot.rows = converted(snapshot.rows)
        for read in self._reads:
            read.rows = converted(read.rows)
        tick(self.coordinator)
        return table

    def append(self, *rows: Row) -> None:
        """Appends rows to a log table, each with a write of its own."""
        for row in rows:
            complete = self._placed(row)
            self._writer().append(pa.Table.from_pylist([complete], schema=self.info.schema))
            self.rows.append(complete)
            self.records.append(_record("+A", complete))

    def upsert(self, row: Row) -> None:
        """Writes a row of a primary-key table."""
        complete = self._placed(row)
        self._writer().upsert(pa.Table.from_pylist([complete], schema=self.info.schema))
        former = self._take(row["id"])
        self.rows.append(complete)
        self.records += [*(_record("-U", row) for row in former), _record("+U" if former else "+I", complete)]

    def delete(self, key: int) -> None:
        """Deletes a row of a primary-key table, if there is one."""
        keys = pa.schema([self.info.schema.field(name) for name in self.info.primary_key])
        row = self._placed({"id": key}, keys)
        self._writer().delete(pa.Table.from_pylist([row], schema=keys))
        self.records += [_record("-D", former) for former in self._take(key)]

    def _take(self, key: int) -> Rows:
        """Removes the row of a key from the model, and returns it if there was one."""
        former = [row for row in self.rows if row["id"] == key]
        self.rows = [row for row in self.rows if row["id"] != key]
        return former

    def _writer(self) -> LogWriter:
        self._sequence_number += 1
        return LogWriter(self.storage, self.path, f"writer-{self._sequence_number}")

    def _placed(self, row: Row, schema: pa.Schema | None = None) -> dict[str, Any]:
        region = {"region": self._region(row["id"])} if self._is_partitioned else {}
        return complete_row({**row, **region}, schema or self.info.schema)

    def _region(self, key: int) -> str:
        return f"r{self._regions[key % REGIONS]}"

    def tier_now(self) -> None:
        """A whole round without an error."""
        outcome = self.tier(self.info)
        assert outcome.error is None, outcome.error
        self.tiered = self.rows + self.archived
        self._note_snapshot()

    def _note_snapshot(self) -> None:
        view = self.lake.view(self.path)
        if view is not None and view.head is not None and all(former.snapshot_id != view.head for former in self._snapshots):
            self._snapshots.append(FormerSnapshot(view.head, self.info.schema, list(self.tiered), list(self.tiered)))

    def upkeep(self) -> None:
        """Rewrites all files of the lake table, large ones too."""
        if self.lake.view(self.path) is None:
            return
        self.due()
        outcome = self.begin(self.info, upkeep=UpkeepOrder(full=True)).end()
        assert outcome.error is None, outcome.error
        assert outcome.state in (RoundState.SUCCEEDED, RoundState.EMPTY)

    def lose_lake(self, chance: random.Random) -> None:
        """A user drops the lake table or rolls it back, and follows `next_action`: all rows are tiered again from the log."""
        if not self._log_is_whole or self._has_dropped or not self.tiered:
            return  # changes of a dropped partition are in the lake alone, so only a person can decide
        self._reads = []
        target = self.by_hand.former_head(self.path) if chance.random() < 0.6 else None
        if target is None:
            self.by_hand.drop(self.path)
            self._snapshots = []
        else:
            self.by_hand.roll_back(self.path, target)
            kept = self.by_hand.snapshots(self.path)
            self._snapshots = [former for former in self._snapshots if former.snapshot_id in kept]
        error = self.tier(self.info).error
        if error is not None:  # a Paimon table that was rolled back to a commit before upkeep has all rows
            statement = next_action(self.coordinator, self.info)
            assert statement == "CALL fluss.sys.reconcile_lake('sales.orders', 'retier')", (statement, error)
            call(self.coordinator, statement)
        self.tier_now()

    def open_read(self) -> None:
        """Plans a fresh read. It runs later, maybe after rounds and changes of the columns."""
        if self._log_is_whole:
            self._reads.append(OpenRead(planned_read(self.storage, lambda name: self.lake, self.path), self.rows + self.archived))

    def restart_all(self) -> None:
        """Cluster and coordinator stop and start again."""
        self.close()
        self.storage = EmbeddedStorage(self.storage.root, self.clock, RandomIds(), self.lake.check_schema)
        self.coordinator = self._start()
        self._reads = []

    def take_snapshots(self) -> None:
        """Takes a KV snapshot of each bucket."""
        self.storage.take_kv_snapshots(self.path)

    def drop_partition(self, place: int) -> None:
        """Drops a partition. The lake keeps the rows that it has; later rows are in a new partition."""
        region = f"r{self._regions[place]}"
        if all(part.partition_name != region for part in self.storage.partitions(self.info)):
            return
        self.storage.drop_partition(self.path, region)
        self._has_dropped = True
        self._regions[place], self._next_region = self._next_region, self._next_region + 1
        self.rows, self.records = ([row for row in rows if row["region"] != region] for rows in (self.rows, self.records))
        self.archived += [row for row in self.tiered if row["region"] == region]
        self._reads = []

    def cut_log(self) -> None:
        """Removes all records that are tiered from the log, and from a primary-key table those that a KV snapshot has."""
        self._log_is_whole, self._reads = False, []
        if self.info.primary_key:
            for _ in range(2):
                self.take_snapshots()
        self.clock.advance(LOG_TTL_S + 1)
        self.storage.maintenance.run()
        assert all(log.log_start > 0 for log in self.storage.offsets(self.info).values() if log.log_end)

    def assert_exact(self) -> None:
        """The lake has the rows of the model at its head and at former snapshots, `validate` proves it, and fresh reads have all rows."""
        view = self.view(self.info)
        assert view.head is not None
        assert _texts(self.read_rows(view.head)) == _texts(self.tiered)
        assert faults(check(self, self.info)) == []
        fresh = planned_read(self.storage, lambda name: self.lake, self.path)
        assert _texts(fresh.rows().to_pylist()) == _texts(self.rows + self.archived)
        assert fresh.count() in (None, len(self.rows) + len(self.archived))
        if self._log_is_whole:
            changes = fresh.rows(ReadScan(ReadPart.CHANGELOG)).drop_columns(["_log_offset", "_commit_timestamp"])
            assert _texts(changes.to_pylist()) == _texts(self.records)
        self._check_former_snapshots()
        self._check_open_reads()

    def read_rows(self, snapshot_id: int) -> Rows:
        """The lake's rows at a snapshot, with the present columns of the source."""
        table, view = self.info, self.view(self.info)
        assert isinstance(self.lake, RowScan)
        readers: Sequence[LakeRowReader] = (
            [reader for rows in self.lake.bucket_readers(table, view, snapshot_id, {}) for reader in rows.readers]
            if table.primary_key
            else self.lake.row_readers(table, view, snapshot_id)
        )
        return [row for reader in readers for batch in reader.read(table.schema.names) for row in batch.to_pylist()]

    def _check_former_snapshots(self) -> None:
        kept = set(self.by_hand.snapshots(self.path))
        self._snapshots = [former for former in self._snapshots if former.snapshot_id in kept]
        for former in self._snapshots:
            assert _texts(self.read_rows(former.snapshot_id)) == _texts(former.rows)
            if self.lake_format == "iceberg":
                rows = self.iceberg(self.info).scan(snapshot_id=former.snapshot_id).to_arrow()
                own = [complete_row(row, former.columns) for row in rows.to_pylist()]
                assert _texts(map(_as_pyiceberg_reads, own)) == _texts(map(_as_pyiceberg_reads, former.own))

    def _check_open_reads(self) -> None:
        for open_read in self._reads[:]:
            try:
                rows = open_read.read.rows().to_pylist()
            except SourceChanged:
                self._reads.remove(open_read)
            else:
                assert _texts(rows) == _texts(open_read.rows)


def _record(kind: str, row: Row) -> dict[str, Any]:
    return {**row, KIND: kind}


def _as_pyiceberg_reads(value: Any) -> Any:
    """Returns a row or value with NULL for empty lists and maps: pyiceberg reads a NULL list of structs as an empty one."""
    if isinstance(value, dict):
        return {name: _as_pyiceberg_reads(item) for name, item in value.items()}
    return ([_as_pyiceberg_reads(item) for item in value] or None) if isinstance(value, list) else value


def _texts(rows: Iterable[Row]) -> list[str]:
    return sorted(map(plain_text, rows))
