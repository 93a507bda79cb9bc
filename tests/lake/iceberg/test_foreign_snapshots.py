"""What a snapshot of Fluss's own tiering added to an Iceberg table, by bounds or by rows (FLUSS.md, "Lake layout")."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

from support.lakes.lake_kit import LakeKit, bucket
from support.worlds.validated import local
from tiering.lake.base import FLUSS_COMMIT_USER
from tiering.lake.foreign import AddedRows, ForeignSnapshot
from tiering.lake.iceberg.commit.staging import FileChanges, SnapshotStager
from tiering.lake.iceberg.reading.view import TAG
from tiering.model.tables import TableInfo

FLINK = {"commit-user": FLUSS_COMMIT_USER}


def rows(kit: LakeKit, table: TableInfo, *ranges: tuple[int, int, int]) -> pa.Table:
    return pa.Table.from_batches([kit.rows(table, bucket(number), start, stop) for number, start, stop in ranges])


def appended(kit: LakeKit, table: TableInfo, data: pa.Table, **more: str) -> int:
    loaded = kit.catalog().load_table(str(table.path))
    loaded.append(data, snapshot_properties={**FLINK, **more})
    head = loaded.current_snapshot()
    assert head is not None
    return head.snapshot_id


def looked_at(kit: LakeKit, table: TableInfo, snapshot_id: int, **partitions: int) -> ForeignSnapshot:
    return kit.lake.foreign_snapshot(table, kit.view(table), snapshot_id, partitions)


def test_bounds_tell_the_offsets_of_each_bucket(kit: LakeKit) -> None:
    table = kit.table()
    kit.tier(table, "r1", {bucket(0): 10, bucket(1): 5})
    first = appended(kit, table, rows(kit, table, (0, 10, 20), (1, 5, 9)))
    second = appended(kit, table, rows(kit, table, (0, 20, 22)))
    assert looked_at(kit, table, first).added == {bucket(0): AddedRows(10, 20, 10), bucket(1): AddedRows(5, 9, 4)}
    assert looked_at(kit, table, second).added == {bucket(0): AddedRows(20, 22, 2)}


def test_rows_tell_it_where_a_file_has_no_bounds_or_those_of_several_buckets(kit: LakeKit, tmp_path: Path) -> None:
    table = kit.table()
    kit.tier(table, "r1", {bucket(0): 10})
    snapshot_id = committed(kit, table, [written(kit, table, rows(kit, table, (0, 10, 20), (1, 0, 4)))])
    assert looked_at(kit, table, snapshot_id).added == {bucket(0): AddedRows(10, 20, 10), bucket(1): AddedRows(0, 4, 4)}


def test_equality_deletes_count_and_position_deletes_do_not(kit: LakeKit) -> None:
    table = kit.table()
    kit.tier(table, "r1", {bucket(0): 10})
    data = written(kit, table, rows(kit, table, (0, 12, 20)))
    old = written(kit, table, rows(kit, table, (0, 10, 12)), DataFileContent.EQUALITY_DELETES)
    positions = pa.table({"file_path": [data.file_path], "pos": pa.array([0], pa.int64())})
    dead = written(kit, table, positions, DataFileContent.POSITION_DELETES)
    snapshot_id = committed(kit, table, [data, old, dead])
    assert looked_at(kit, table, snapshot_id).added == {bucket(0): AddedRows(10, 20, 8)}


def test_a_rewrite_adds_nothing(kit: LakeKit) -> None:
    table = kit.table()
    kit.tier(table, "r1", {bucket(0): 10})
    both = rows(kit, table, (0, 0, 10))
    snapshot_id = replaced(kit, table, both)
    assert looked_at(kit, table, snapshot_id).is_rewrite
    more = replaced(kit, table, rows(kit, table, (0, 0, 12)))
    assert not looked_at(kit, table, more).is_rewrite


def test_partitions_are_told_by_their_values(kit: LakeKit) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("region", pa.string(), nullable=False)])
    table = kit.table("visits", schema=schema, partition_keys=("region",))
    kit.lake.ensure_table(table)
    plain = rows(kit, kit.table(), (0, 0, 4))
    data = pa.table(
        {"id": plain["id"], "region": ["north", "north", "gone", "north"]} | {name: plain[name] for name in plain.column_names[-3:]}
    )
    snapshot_id = appended(kit, table, data.cast(table.lake_schema()))
    assert looked_at(kit, table, snapshot_id, north=17, south=18).added == {bucket(0, 17): AddedRows(0, 4, 3)}


def test_an_offsets_file_that_is_gone_says_nothing(kit: LakeKit, tmp_path: Path) -> None:
    table = kit.table()
    kit.lake.ensure_table(table)
    folder = local(kit.catalog().load_table(str(table.path)).location()) / "lake" / "metadata"
    folder.mkdir(parents=True)
    (folder / "here.offsets").write_text('{"version":1,"table_id":7,"bucket_offsets":[9,-1]}')
    here = appended(kit, table, rows(kit, table, (0, 0, 9)), **{"fluss-offsets": f"file://{folder}/here.offsets"})
    gone = appended(kit, table, rows(kit, table, (0, 9, 12)), **{"fluss-offsets": f"file://{folder}/gone.offsets"})
    assert looked_at(kit, table, here).offsets == {bucket(0): 9}
    assert looked_at(kit, table, gone).offsets == {}


def written(kit: LakeKit, table: TableInfo, data: pa.Table, content: DataFileContent = DataFileContent.DATA) -> DataFile:
    """A file without bounds, in the partition of bucket 0."""
    loaded = kit.catalog().load_table(str(table.path))
    folder = local(loaded.location()) / "data"
    file = folder / f"flink-{sum(1 for _ in folder.rglob('*'))}.parquet"
    pq.write_table(data, file)
    described = DataFile.from_args(
        content=content,
        file_path=f"file://{file}",
        file_format=FileFormat.PARQUET,
        partition=Record(0),
        record_count=data.num_rows,
        file_size_in_bytes=file.stat().st_size,
        equality_ids=[1] if content is DataFileContent.EQUALITY_DELETES else None,
    )
    described.spec_id = loaded.spec().spec_id
    return described


def committed(kit: LakeKit, table: TableInfo, files: list[DataFile], operation: Operation | None = None, **changes: Any) -> int:
    loaded = kit.catalog().load_table(str(table.path))
    stager = SnapshotStager(loaded, kit.view(table), "flink")
    staged = stager.stage(FileChanges(files, loaded.spec().spec_id, **changes), FLINK)
    updates = tuple(update for update in staged.updates if not (isinstance(update, SetSnapshotRefUpdate) and update.ref_name == TAG))
    if operation is not None:
        updates = tuple(with_operation(update, operation) for update in updates)
    loaded.catalog.commit_table(loaded, staged.requirements, updates)
    return staged.snapshot_id


def replaced(kit: LakeKit, table: TableInfo, data: pa.Table) -> int:
    """Bucket 0 in one new file, as Iceberg's RewriteFiles commits it."""
    return committed(kit, table, [written(kit, table, data)], Operation.REPLACE, replaced=frozenset({(0,)}))


def with_operation(update: Any, operation: Operation) -> Any:
    if not isinstance(update, AddSnapshotUpdate) or update.snapshot.summary is None:
        return update
    summary = Summary(operation, **update.snapshot.summary.additional_properties)
    return AddSnapshotUpdate(snapshot=update.snapshot.model_copy(update={"summary": summary}))
