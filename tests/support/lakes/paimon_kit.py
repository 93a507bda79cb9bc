"""A real Paimon lake in a folder, rounds driven by hand against it, and pypaimon as another reader and writer of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pypaimon import CatalogFactory

from tiering.lake.base import Committable, LakeView, WriterInitContext
from tiering.lake.marker import Marker, TieredRange, encode
from tiering.lake.paimon.commit.manifests import Manifests
from tiering.lake.paimon.factory import PaimonTieringFactory
from tiering.lake.paimon.lake import PaimonLake
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.proof.bucket_proof import advanced
from tiering.model.tables import BucketKey, ChangeType, TableInfo, TablePath, TableType

CREATED = datetime(2024, 1, 1, 0, 0, 0, 123_456, UTC)
"""Time of tables and records; a Paimon table has its milliseconds."""
CLUSTER_ID = "11111111-1111-1111-1111-111111111111"
COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
B0 = BucketKey(None, 0)
Change = tuple[ChangeType, dict[str, Any]]


@dataclass(frozen=True)
class PreparedRound:
    """A round whose files are written and whose commit was not sent yet."""

    factory: PaimonTieringFactory
    committable: Committable
    base: LakeView
    marker: Marker

    def commit(self) -> int:
        return self.factory.create_committer().commit(self.committable, self.base, self.marker)


class PaimonKit:
    """One warehouse, the folder `name` in `folder`."""

    def __init__(self, folder: Path, name: str = "lake") -> None:
        self.warehouse = folder / name
        self.lake = PaimonLake(self.warehouse)

    def log_table(self, columns: pa.Schema = COLUMNS, name: str = "orders", **changes: Any) -> TableInfo:
        table = TableInfo(7, TablePath("sales", name), TableType.LOG, columns, 2, CREATED)
        return replace(table, **changes)

    def folder(self, table: TableInfo) -> Path:
        return self.warehouse / f"{table.path.database_name}.db" / table.path.table_name

    def rows(self, table: TableInfo, bucket: BucketKey, start: int, columns: dict[str, Sequence[Any]]) -> pa.RecordBatch:
        """Rows of the source's columns with the offsets from `start` on."""
        count = len(next(iter(columns.values())))
        system = {"__bucket": [bucket.bucket_id] * count, "__offset": range(start, start + count), "__timestamp": [CREATED] * count}
        schema = table.lake_schema()
        values = {**columns, **system}
        arrays = [pa.array(values.get(field.name, [None] * count), field.type) for field in schema]
        return pa.RecordBatch.from_arrays(cast(Any, arrays), schema=schema)

    def prepare(
        self, table: TableInfo, round_id: str, columns: dict[str, Sequence[Any]], bucket: BucketKey = B0, partition: str | None = None
    ) -> PreparedRound:
        """Writes rows behind the lake's marker."""
        base = self.lake.ensure_table(table)
        factory = self.lake.tiering_factory(table)
        before = {} if base.marker is None else dict(base.marker.buckets)
        start = before[bucket].tiered if bucket in before else 0
        batch = self.rows(table, bucket, start, columns)
        writer = factory.create_writer(WriterInitContext(table, base.table_uuid, bucket, partition, round_id, f"nonce-{round_id}"))
        writer.write(batch)
        result = writer.complete(start, start + batch.num_rows)
        after = {**before, bucket: TieredRange(0, start + batch.num_rows)}
        base_round = None if base.marker is None else base.marker.round_id
        proofs = advanced({} if base.marker is None else base.marker.proofs, before, after, [result], round_id)
        marker = Marker(CLUSTER_ID, table.table_id, base.table_uuid, round_id, 1, base_round, after, proofs=proofs)
        return PreparedRound(factory, Committable(round_id, (result,)), base, marker)

    def tier(self, table: TableInfo, round_id: str, ids: Sequence[int]) -> int:
        """A whole round of rows of COLUMNS."""
        return self.prepare(table, round_id, {"id": ids, "name": [str(number) for number in ids]}).commit()

    def view(self, table: TableInfo) -> LakeView:
        current = PaimonLake(self.warehouse).view(table.path)
        assert current is not None
        return current

    def by_pypaimon(self, table: TableInfo | TablePath) -> Any:
        path = table.path if isinstance(table, TableInfo) else table
        return CatalogFactory.create({"warehouse": str(self.warehouse)}).get_table(str(path))

    def read(self, table: TableInfo | TablePath, **filters: Any) -> pa.Table:
        """The rows that pypaimon reads, those with the values of `filters`."""
        builder = self.by_pypaimon(table).new_read_builder()
        predicates = builder.new_predicate_builder()
        if filters:
            equal = [predicates.equal(name, value) for name, value in filters.items()]
            builder = builder.with_filter(predicates.and_predicates(equal))
        return cast(pa.Table, builder.new_read().to_arrow(builder.new_scan().plan().splits()))

    def foreign_commit(self, table: TableInfo) -> None:
        """Commits another writer's snapshot without rows."""
        builder = self.by_pypaimon(table).copy({"snapshot.ignore-empty-commit": "false"}).new_batch_write_builder()
        builder.new_commit().commit([])

    def forge_marker(self, table: TableInfo, marker: Marker) -> None:
        """Writes another marker into the newest snapshot, in its file itself."""
        snapshots = self.folder(table) / "snapshot"
        newest = max(snapshots.glob("snapshot-*"), key=lambda file: int(file.name.rpartition("-")[2]))
        document = json.loads(newest.read_text())
        document["properties"] |= encode(marker).properties
        newest.write_text(json.dumps(document))

    def without_file(self, table: TableInfo, name: str) -> None:
        """Commits another writer's snapshot that no longer has a data file."""
        loaded = cast(LoadedTable, self.view(table).handle)
        assert loaded.head is not None
        gone = [replace(entry, kind=1) for entry in Manifests(loaded).live_entries(loaded.head) if entry.file.file_name == name]
        commit = self.by_pypaimon(table).new_batch_write_builder().new_commit().file_store_commit
        commit._try_commit("OVERWRITE", 1, lambda _: gone, changelog_entries=[])

    def roll_back(self, table: TableInfo, snapshot_id: int) -> None:
        """Rolls back as Paimon does: LATEST first, then the newer files are deleted."""
        snapshots = self.folder(table) / "snapshot"
        (snapshots / "LATEST").write_text(str(snapshot_id))
        for file in snapshots.glob("snapshot-*"):
            if int(file.name.rpartition("-")[2]) > snapshot_id:
                file.unlink()

    def expire(self, table: TableInfo, until: int) -> None:
        """Expires as Paimon does: the oldest files are deleted first, then EARLIEST is written."""
        snapshots = self.folder(table) / "snapshot"
        for number in range(1, until):
            (snapshots / f"snapshot-{number}").unlink(missing_ok=True)
        (snapshots / "EARLIEST").write_text(str(until))

    def drop(self, table: TableInfo) -> None:
        shutil.rmtree(self.folder(table))


def overwrite(kit: PaimonKit, table: TableInfo, rows: pa.Table) -> None:
    """Rewrites all files as another writer, with these rows."""
    builder = kit.by_pypaimon(table).new_batch_write_builder().overwrite()
    writer = builder.new_write()
    writer.write_arrow(rows)
    builder.new_commit().commit(writer.prepare_commit())


class KeyedRounds:
    """Rounds of one bucket of a primary-key table, one after the other."""

    def __init__(self, kit: PaimonKit, table: TableInfo, bucket: BucketKey = B0, partition: str | None = None) -> None:
        self.kit, self.table, self.bucket, self.partition = kit, table, bucket, partition

    def prepare(self, round_id: str, changes: Sequence[Change], **context: Any) -> tuple[PaimonTieringFactory, Committable, Any, Marker]:
        lake, table, bucket = self.kit.lake, self.table, self.bucket
        base = lake.ensure_table(table)
        before = {} if base.marker is None else dict(base.marker.buckets)
        start = before[bucket].tiered if bucket in before else 0
        standing = lake.bucket_files(table, base, {bucket: self.partition}).get(bucket, b"")
        factory = lake.tiering_factory(table)
        writer = factory.create_writer(
            WriterInitContext(table, base.table_uuid, bucket, self.partition, round_id, f"nonce-{round_id}", standing, **context)
        )
        system = {"__bucket": bucket.bucket_id, "__timestamp": CREATED}
        rows = [{**row, **system, "__offset": offset, "__change_type": int(kind)} for offset, (kind, row) in enumerate(changes, start)]
        for first in range(0, len(rows), 50):
            writer.write(pa.RecordBatch.from_pylist(rows[first : first + 50], schema=table.read_schema()))
        result = writer.complete(start, start + len(rows))
        base_round = None if base.marker is None else base.marker.round_id
        buckets = {**before, bucket: TieredRange(0, start + len(rows))}
        proofs = advanced({} if base.marker is None else base.marker.proofs, before, buckets, [result], round_id)
        marker = Marker(CLUSTER_ID, table.table_id, base.table_uuid, round_id, 1, base_round, buckets, proofs=proofs)
        return factory, Committable(round_id, (result,)), base, marker

    def tier(self, round_id: str, changes: Sequence[Change], **context: Any) -> int:
        factory, committable, base, marker = self.prepare(round_id, changes, **context)
        return factory.create_committer().commit(committable, base, marker)
