"""What Fluss's own tiering commits to a real Iceberg table, without a Fluss: data files and equality deletes as it writes them.

The source is a `LakeWorld`'s embedded cluster that says it is shared. Flink's files have no bounds here, so their rows are read; those
that pyiceberg appends have bounds.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.typedef import Record

from support.worlds.lake_world import LakeWorld
from support.worlds.validated import local
from tiering.lake.base import FLUSS_COMMIT_USER
from tiering.lake.iceberg.commit.staging import FileChanges, SnapshotStager
from tiering.lake.iceberg.reading.view import TAG
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.service_mode import ServiceMode
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, ChangeType, TableInfo, TableType

GONE = (ChangeType.UPDATE_BEFORE, ChangeType.DELETE)


def share(world: LakeWorld) -> None:
    """Its cluster is shared with another tiering service from now on."""
    world.storage.service_mode = ServiceMode.SHARED  # type: ignore[attr-defined]


class FlinkOnIceberg:
    """One round of the other service."""

    def __init__(self, world: LakeWorld, table: TableInfo) -> None:
        self._world, self._table = world, table
        self.starts: dict[BucketKey, int] = {}
        self.ends: dict[BucketKey, int] = {}

    def plan(self, stop: int | None = None) -> FlinkOnIceberg:
        recorded = self._world.storage.lake_snapshot(self._table)
        self.starts = {} if recorded is None else dict(recorded.offsets)
        logs = self._world.storage.offsets(self._table)
        self.ends = {bucket: log.log_end if stop is None else min(stop, log.log_end) for bucket, log in logs.items()}
        return self

    def append(self) -> FlinkOnIceberg:
        """On whatever the head is by now."""
        properties = {"commit-user": FLUSS_COMMIT_USER, "fluss-offsets": self._offsets_file()}
        if self._table.table_type is TableType.LOG:
            rows = pa.concat_tables([self._changes(bucket) for bucket in self.ends])
            loaded = self._world.iceberg(self._table)
            loaded.append(rows.select(self._table.lake_schema().names).cast(self._table.lake_schema()), snapshot_properties=properties)
        else:
            self._commit([file for bucket in self.ends for file in self._keyed_files(bucket)], properties)
        return self

    def tell(self) -> FlinkOnIceberg:
        head = self._world.view(self._table).head
        assert head is not None
        self._world.storage.rewind_lake_snapshot(self._table, RecordedLakeSnapshot(head, self.ends))
        return self

    def _changes(self, bucket: BucketKey) -> pa.Table:
        start, stop = self.starts.get(bucket, 0), self.ends[bucket]
        split = TieringLogSplit(self._table.path, bucket, None, start, stop, stop)
        batches = self._world.storage.reader(self._table, split).read() if stop > start else ()
        return pa.Table.from_batches(list(batches), schema=self._table.read_schema())

    def _keyed_files(self, bucket: BucketKey) -> list[DataFile]:
        """Whole old rows as equality deletes, unless the key was written in this round: then its row dies by position."""
        changes = self._changes(bucket)
        kinds, keys = changes["__change_type"].to_pylist(), changes["id"].to_pylist()
        written: dict[int, int] = {}
        old: list[int] = []
        for index, (kind, key) in enumerate(zip(kinds, keys, strict=True)):
            if kind in GONE:
                if written.pop(key, None) is None:
                    old.append(index)
            else:
                written[key] = index
        rows = changes.select(self._table.lake_schema().names)
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
        loaded = self._world.iceberg(self._table)
        file = local(loaded.location()) / "data" / f"flink-{uuid.uuid4()}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, file)
        key_ids = [loaded.schema().find_field(name).field_id for name in self._table.primary_key]
        described = DataFile.from_args(
            content=content,
            file_path=f"file://{file}",
            file_format=FileFormat.PARQUET,
            partition=Record(bucket.bucket_id),
            record_count=rows.num_rows,
            file_size_in_bytes=file.stat().st_size,
            equality_ids=key_ids if content is DataFileContent.EQUALITY_DELETES else None,
        )
        described.spec_id = loaded.spec().spec_id
        return described

    def _commit(self, files: list[DataFile], properties: dict[str, str]) -> None:
        loaded = self._world.iceberg(self._table)
        stager = SnapshotStager(loaded, self._world.view(self._table), "flink")
        staged = stager.stage(FileChanges(files, loaded.spec().spec_id), properties)
        updates: tuple[Any, ...] = tuple(
            update for update in staged.updates if not (isinstance(update, SetSnapshotRefUpdate) and update.ref_name == TAG)
        )
        loaded.catalog.commit_table(loaded, staged.requirements, updates)

    def _offsets_file(self) -> str:
        folder = Path(local(self._world.iceberg(self._table).location())) / "lake" / "sales" / "metadata"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{uuid.uuid4()}.offsets"
        offsets = [self.ends.get(BucketKey(None, number), -1) for number in range(self._table.bucket_count)]
        file.write_text(json.dumps({"version": 1, "table_id": self._table.table_id, "bucket_offsets": offsets}))
        return f"file://{file}"
