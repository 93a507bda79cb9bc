"""Files of one round of Fluss's own tiering in a real Iceberg table: rows of a log table, or changes of a primary-key table.

A primary-key table gets data files, equality deletes that hold whole old rows, and position deletes for rows that were written and
replaced within the round (docs/fluss-facts.md, "Lake layout"). Its files have no bounds here, so a reader reads their rows; those that
pyiceberg appends have bounds.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.typedef import Record

from support.worlds.validated import local
from tiering.clock import SystemClock
from tiering.lake.base import LakeView
from tiering.lake.iceberg.commit.staging import FileChanges, SnapshotStager
from tiering.lake.iceberg.reading.view import TAG
from tiering.lake.iceberg.schema.layout import layout_of_schema
from tiering.lake.iceberg.schema.partition_values import partition_values
from tiering.model.tables import BucketKey, ChangeType, TableInfo, TableType

GONE = (ChangeType.UPDATE_BEFORE, ChangeType.DELETE)


class FlinkFiles:
    """Commits to `loaded`, which is at the head that `view` shows."""

    def __init__(self, table: TableInfo, loaded: Table, view: LakeView, names: Mapping[int, str] | None = None) -> None:
        """`names`: of partitions, by their ids."""
        self._table, self._loaded, self._view, self._names = table, loaded, view, names or {}
        self._layout = layout_of_schema(loaded.schema())

    def commit(self, changes: Mapping[BucketKey, pa.Table], properties: dict[str, str]) -> int:
        """Changes as a split reader gives them, by bucket; the id of the new snapshot."""
        if self._table.table_type is TableType.LOG:
            lake_schema = self._layout.lake_schema(self._table)
            rows = pa.concat_tables(changes.values()).select(lake_schema.names).cast(lake_schema)
            self._loaded.append(rows, snapshot_properties=properties)
        else:
            self._commit([file for bucket, rows in changes.items() for file in self._keyed_files(bucket, rows)], properties)
        snapshot = self._loaded.refresh().current_snapshot()
        assert snapshot is not None
        return snapshot.snapshot_id

    def _keyed_files(self, bucket: BucketKey, changes: pa.Table) -> list[DataFile]:
        """Whole old rows as equality deletes, unless the key was written in this round: then its row dies by position."""
        kinds, keys = changes["__change_type"].to_pylist(), changes["id"].to_pylist()
        written: dict[int, int] = {}
        old: list[int] = []
        for index, (kind, key) in enumerate(zip(kinds, keys, strict=True)):
            if kind in GONE:
                if written.pop(key, None) is None:
                    old.append(index)
            else:
                written[key] = index
        rows = changes.select(self._layout.lake_schema(self._table).names)
        places = [index for index, kind in enumerate(kinds) if kind not in GONE]
        data = rows.take(places) if places else rows.slice(0, 0)
        living = set(written.values())
        dead = [place for place, index in enumerate(places) if index not in living]
        files = [] if not data.num_rows else [self._file(bucket, data, DataFileContent.DATA)]
        if old:
            files.append(self._file(bucket, rows.take(old), DataFileContent.EQUALITY_DELETES))
        if dead:
            positions = pa.table({"file_path": [files[0].file_path] * len(dead), "pos": pa.array(dead, pa.int64())})
            files.append(self._file(bucket, positions, DataFileContent.POSITION_DELETES))
        return files

    def _file(self, bucket: BucketKey, rows: pa.Table, content: DataFileContent) -> DataFile:
        file = local(self._loaded.location()) / "data" / f"flink-{uuid.uuid4()}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, file)
        name = None if bucket.partition_id is None else self._names[bucket.partition_id]
        key_ids = [self._loaded.schema().find_field(name).field_id for name in self._table.primary_key]
        described = DataFile.from_args(
            content=content,
            file_path=f"file://{file}",
            file_format=FileFormat.PARQUET,
            partition=Record(*partition_values(self._table, bucket, name, self._loaded.schema())),
            record_count=rows.num_rows,
            file_size_in_bytes=file.stat().st_size,
            equality_ids=key_ids if content is DataFileContent.EQUALITY_DELETES else None,
        )
        described.spec_id = self._loaded.spec().spec_id
        return described

    def _commit(self, files: list[DataFile], properties: dict[str, str]) -> None:
        stager = SnapshotStager(self._loaded, self._view, "flink", SystemClock())
        staged = stager.stage(FileChanges(files, self._loaded.spec().spec_id), properties)
        updates: tuple[Any, ...] = tuple(
            update for update in staged.updates if not (isinstance(update, SetSnapshotRefUpdate) and update.ref_name == TAG)
        )
        self._loaded.catalog.commit_table(self._loaded, staged.requirements, updates)
