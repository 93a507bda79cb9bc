"""The rows that a snapshot of Fluss's own tiering added to an Iceberg table, by bounds or by rows (docs/fluss-facts.md, "Lake layout")."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyiceberg.manifest import DataFileContent

from support.lakes.foreign.tiering import appended, committed, replaced, written
from support.lakes.lake_kit import LakeKit, bucket
from support.worlds.validated import local
from tiering.instants import to_milliseconds
from tiering.lake.foreign import AddedRows, ForeignSnapshot
from tiering.model.tables import TIMESTAMP_COLUMN, TableInfo


def rows(kit: LakeKit, table: TableInfo, *ranges: tuple[int, int, int]) -> pa.Table:
    return pa.Table.from_batches([kit.rows(table, bucket(number), start, stop) for number, start, stop in ranges])


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
    newest_ms = to_milliseconds(plain[TIMESTAMP_COLUMN][3].as_py())
    looked = looked_at(kit, table, snapshot_id, north=17, south=18)
    assert looked.added == {bucket(0, 17): AddedRows(0, 4, 3, newest_ms)}
    assert looked.has_dropped_rows


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
