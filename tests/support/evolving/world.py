"""A whole deployment in one process whose tables change their columns: the cluster is in memory, the lake is real.

The cluster keeps each record with the columns that the table had when it was written, and reads it with the present ones. Beside it, a
model in plain Python holds the rows that the lake must have.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.background import tick
from support.clusters.memory_cluster import WHEN, MemoryCluster
from support.evolving.row_model import Row, complete_row, converted_model, plain_text
from support.lake_kinds.by_hand import lake_by_hand
from support.lake_kinds.kinds import LakeKind
from support.worlds.lake_world import FRESHNESS_S, InlineDeployment
from tiering.cluster.base import SplitReader
from tiering.errors import KvSnapshotGone, SourceChanged
from tiering.lake.file_lists import LakeRowReader, RowScan
from tiering.lake.registry import local_lake_properties, open_lake
from tiering.model.schema.changes import SchemaChange, changed_schema
from tiering.model.schema.field_ids import with_field_ids
from tiering.model.schema.row_conversion import converted_rows
from tiering.model.splits import TieringLogSplit, TieringSplit
from tiering.model.tables import CHANGE_TYPE_FIELD, SYSTEM_COLUMN_FIELDS, BucketKey, ChangeType, TableInfo, TablePath, TableType
from tiering.validate.results import Level
from tiering.validate.run import validate


@dataclass(frozen=True)
class _Record:
    schema_id: int
    schema: pa.Schema
    row: Row
    kind: ChangeType


@dataclass(frozen=True)
class _Reader:
    """A `SplitReader` of records in memory."""

    table: TableInfo
    bucket: BucketKey
    start: int
    records: Sequence[_Record]

    def read(self) -> Iterator[pa.RecordBatch]:
        for place, record in enumerate(self.records):
            if record.schema_id > self.table.schema_id:
                raise SourceChanged(f"the columns of {self.table.path} changed since it was looked up")
            own = converted_rows(pa.RecordBatch.from_pylist([record.row], schema=record.schema), record.schema, self.table.schema)
            system = [self.bucket.bucket_id, self.start + place, WHEN, int(record.kind)]
            fields = (*SYSTEM_COLUMN_FIELDS, CHANGE_TYPE_FIELD)
            more = [pa.array([value], field.type) for value, field in zip(system, fields, strict=True)]
            arrays = [*own.columns, *(more if self.table.table_type is TableType.PRIMARY_KEY else more[:-1])]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.table.read_schema())


class EvolvingCluster(MemoryCluster):
    """A `ClusterOwner` of tables with any columns, which may change."""

    def __init__(self, *tables: TableInfo) -> None:
        super().__init__(*tables)
        self._records: dict[tuple[int, BucketKey], list[_Record]] = {}

    def write(self, table: TableInfo, bucket_id: int, row: Row, kind: ChangeType) -> None:
        """Adds a record with the columns of `table`."""
        bucket = BucketKey(None, bucket_id)
        self._records.setdefault((table.table_id, bucket), []).append(_Record(table.schema_id, table.schema, row, kind))
        self.append(table, bucket_id, 1)

    def change(self, path: TablePath, changes: Sequence[SchemaChange]) -> TableInfo:
        """Changes the columns of a table."""
        table = self.by_path[path]
        schema = changed_schema(table.schema, changes, (*table.primary_key, *table.bucket_keys, *table.partition_keys))
        self.by_path[path] = replace(table, schema=schema, schema_id=table.schema_id + 1)
        return self.by_path[path]

    def reader(self, table: TableInfo, split: TieringSplit) -> SplitReader:  # type: ignore[override]
        if not isinstance(split, TieringLogSplit):
            raise KvSnapshotGone(f"{table.path} has no KV snapshot {split.snapshot_id}", table_id=table.table_id)
        records = self._records.get((table.table_id, split.bucket), [])
        return _Reader(table, split.bucket, split.starting_offset, records[split.starting_offset : split.stopping_offset])


class EvolvingWorld(InlineDeployment):
    """One table of the columns `schema`, which must have an `id`: a log table, or a primary-key table with the key `id`."""

    def __init__(
        self, folder: Path, kind: LakeKind, schema: pa.Schema, *, has_key: bool = False, options: Mapping[str, str] | None = None
    ) -> None:
        self.lake_format = kind.format
        super().__init__(local_lake_properties(folder))
        table = TableInfo(
            1,
            TablePath("sales", "orders"),
            TableType.PRIMARY_KEY if has_key else TableType.LOG,
            with_field_ids(schema),
            1 if has_key else 2,
            WHEN,
            primary_key=("id",) if has_key else (),
            properties={"table.datalake.enabled": "true", **kind.options, **(options or {})},
            lake_enabled=True,
            lake_enabled_at=WHEN,
            lake_format=kind.format,
            freshness_ms=FRESHNESS_S * 1_000,
            schema_id=1,
            auto_compaction=True,
        )
        self.cluster = EvolvingCluster(table)
        self.path = table.path
        self.rows: list[dict[str, Any]] = []
        """The rows that the lake must have after the next round, with the present columns of the source."""
        self.tiered: list[dict[str, Any]] = []
        """The rows that the lake must have now, with the present columns of the source."""
        self.coordinator = self._start()

    def _open_lake(self) -> Any:
        return open_lake(self.lake_format, self.lake_properties)

    @property
    def owner(self) -> EvolvingCluster:
        return self.cluster

    @property
    def info(self) -> TableInfo:
        """The table as it is now."""
        return self.cluster.by_path[self.path]

    def further_steps(self, chance: random.Random) -> Sequence[Callable[[], None]]:
        """Returns the steps of a story that only this world has."""
        return ()

    def change(self, *changes: SchemaChange) -> TableInfo:
        """Changes the columns of the table."""
        before = self.info.schema
        table = self.cluster.change(self.path, changes)
        self.rows, self.tiered = (converted_model(rows, before, table.schema) for rows in (self.rows, self.tiered))
        tick(self.coordinator)
        return table

    def set_options(self, **options: str) -> None:
        """Sets options of the table at the source."""
        self.cluster.by_path[self.path] = replace(self.info, properties={**self.info.properties, **options})

    def append(self, *rows: Row) -> None:
        """Appends rows to the buckets in turn."""
        for row in rows:
            self.cluster.write(self.info, len(self.rows) % 2, row, ChangeType.APPEND)
            self.rows.append(complete_row(row, self.info.schema))

    def upsert(self, row: Row) -> None:
        """Writes a row of a primary-key table."""
        before = [other for other in self.rows if other["id"] == row["id"]]
        if before:
            self.cluster.write(self.info, 0, before[0], ChangeType.UPDATE_BEFORE)
        self.cluster.write(self.info, 0, row, ChangeType.UPDATE_AFTER if before else ChangeType.INSERT)
        self.rows = [other for other in self.rows if other["id"] != row["id"]]
        self.rows.append(complete_row(row, self.info.schema))

    def delete(self, key: int) -> None:
        """Deletes a row of a primary-key table, if there is one."""
        for row in [row for row in self.rows if row["id"] == key]:
            self.cluster.write(self.info, 0, row, ChangeType.DELETE)
            self.rows.remove(row)

    def tier_now(self) -> None:
        """A whole round without an error."""
        outcome = self.tier(self.info)
        assert outcome.error is None, outcome.error
        self.tiered = list(self.rows)

    def cut_log(self) -> None:
        """Removes all records that are tiered from the log."""
        logs = self.cluster.logs[self.info.table_id]
        for bucket, (_, end) in logs.items():
            logs[bucket] = (end, end)

    def lake_table(self) -> pa.Table:
        """The rows of the lake table, as another program reads them."""
        return lake_by_hand(self.lake_format, self.lake_properties).rows(self.path)

    def read_rows(self) -> list[dict[str, Any]]:
        """The lake's rows as a fresh read sees them, with the present columns of the source."""
        table, view = self.info, self.view(self.info)
        assert isinstance(self.lake, RowScan)
        assert view.head is not None
        readers: Sequence[LakeRowReader] = (
            [reader for rows in self.lake.bucket_readers(table, view, view.head, {}) for reader in rows.readers]
            if table.primary_key
            else self.lake.row_readers(table, view, view.head)
        )
        return [row for reader in readers for batch in reader.read(table.schema.names) for row in batch.to_pylist()]

    def assert_exact(self) -> None:
        """The lake has the rows of the model, and `validate` proves it."""
        assert sorted(map(plain_text, self.read_rows())) == sorted(map(plain_text, self.tiered))
        assert [check for check in self.checks() if check.ok is False] == []

    def checks(self) -> list[Any]:
        """The results of `validate` at its highest level."""
        return list(validate(self.owner, self.lake, self.path, Level.ROWS, None))
